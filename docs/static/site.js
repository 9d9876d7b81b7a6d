// What scrolls inside its own box can be scrolled with the keyboard.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper, dt.sig")) box.tabIndex = 0;
});
