// The list of curves: legend and selector in one.
import { ALGORITHMS } from "./settings.mjs";
import { ending, inWords } from "./story.mjs";

export const colourOf = (index) => `var(--curve-${index % 8})`;

// `on` holds what happens when a curve is chosen or removed; `resultOf(curve)` its latest result or nothing.
export function drawList(list, state, resultOf, on) {
  while (list.children.length > state.curves.length) list.lastChild.remove();
  state.curves.forEach((curve, i) => {
    const item = list.children[i] || list.appendChild(newItem(on));
    const [choose, remove] = item.children;
    const result = resultOf(curve, i);
    item.classList.toggle("active", i === state.active);
    item.dataset.index = i;
    item.style.setProperty("--own", colourOf(i));
    choose.setAttribute("aria-pressed", String(i === state.active));
    const [, name, words, end] = choose.children;
    name.textContent = ALGORITHMS[curve.algorithm].label;
    words.textContent = inWords(curve);
    end.textContent = result ? endWords(result, state.metric) : "\u2026";
    remove.hidden = state.curves.length === 1;
    remove.setAttribute("aria-label", `Remove ${ALGORITHMS[curve.algorithm].label} ${inWords(curve)}`);
  });
}

function endWords(result, metric) {
  if (result.diverged) return `${result.diverged} of ${result.done} diverged`;
  if (result.idle === result.runs) return "not begun";
  return ending(result, metric);
}

function newItem(on) {
  const item = document.createElement("li");
  const choose = document.createElement("button");
  choose.type = "button";
  choose.className = "curve";
  for (const name of ["swatch", "name", "words", "end"]) {
    const part = document.createElement("span");
    part.className = name;
    choose.append(part);
  }
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "remove";
  remove.textContent = "\u00d7";
  choose.onclick = () => on.choose(Number(item.dataset.index));
  remove.onclick = () => on.remove(Number(item.dataset.index));
  item.append(choose, remove);
  return item;
}
