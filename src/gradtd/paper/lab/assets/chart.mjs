// Line charts as SVG: axes, bands, lines and a reading under the pointer. Colours come from the page's styles.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 14, right: 16, bottom: 40, left: 58 };
const ROOM_FOR_LABELS = 22; // above the plot, where it has marks

export function element(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A number as people write it: 0.0312, 4.2e-7, 12,000.
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? "infinite" : "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(digits - 1).replace("e+", "e");
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

const counted = (value) => Math.round(value).toLocaleString("en");

function linear([low, high], [from, to]) {
  const map = (value) => from + ((value - low) / (high - low)) * (to - from);
  map.back = (place) => low + ((place - from) / (to - from)) * (high - low);
  return map;
}

function logarithmic([low, high], range) {
  const inside = linear([Math.log(low), Math.log(high)], range);
  const map = (value) => inside(Math.log(Math.max(value, low / 1e6)));
  map.back = (place) => Math.exp(inside.back(place));
  return map;
}

// Ticks of a logarithmic axis: powers of ten, with 2 and 5 between them where there is room, even steps on a short one.
export function logTicks(low, high) {
  if (high / low < 5) return linearTicks(low, high);
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((to - from) / 7));
  const between = to - from <= 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let e = from; e <= to; e++)
    if ((e - from) % every === 0) for (const b of between) ticks.push(b * 10 ** e);
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

function linearTicks(low, high) {
  const size = 10 ** Math.floor(Math.log10(high - low) - 0.3);
  const step = [1, 2, 2.5, 5, 10].map((s) => s * size).find((s) => (high - low) / s <= 6);
  const first = Math.ceil(low / step), last = Math.floor(high / step);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// Draw into an <svg>. `view` holds x and y ({range, log, label}), `series` ({label, colour, kind, x, y, low, high}),
// and `marks` ({x, label, kind}): vertical lines. Returns the two scales.
export function drawChart(svg, view) {
  const width = Math.max(svg.clientWidth, 200), height = Math.max(svg.clientHeight, 150);
  const top = MARGIN.top + (view.marks ? ROOM_FOR_LABELS : 0);
  const plot = { left: MARGIN.left, right: width - MARGIN.right, top, bottom: height - MARGIN.bottom, height };
  const x = (view.x.log ? logarithmic : linear)(view.x.range, [plot.left, plot.right]);
  const y = (view.y.log ? logarithmic : linear)(view.y.range, [plot.bottom, plot.top]);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(clip(svg.id, plot));
  verticalAxis(svg, view.y, y, plot);
  horizontalAxis(svg, view.x, x, plot);
  const inside = element("g", { "clip-path": `url(#${svg.id}-clip)` });
  for (const one of view.series) if (one.low) inside.append(band(one, x, y));
  for (const one of view.series) inside.append(line(one, x, y), ...dots(one, x, y));
  svg.append(inside);
  for (const one of view.series) if (leaves(one, view.y.range)) svg.append(arrow(one, view.y.range, x, plot));
  (view.marks || []).forEach((mark, i) => vertical(svg, mark, i, x, plot));
  return { x, y };
}

function clip(id, { left, right, top, bottom }) {
  const path = element("clipPath", { id: `${id}-clip` });
  path.append(element("rect", { x: left, y: top, width: right - left, height: bottom - top }));
  return path;
}

const ticksOf = ({ range, log }) => (log ? logTicks(...range) : linearTicks(...range));

function verticalAxis(svg, axis, y, { left, right, top, bottom }) {
  for (const tick of ticksOf(axis)) {
    const at = y(tick);
    svg.append(element("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
    svg.append(element("text", { class: "tick", x: left - 8, y: at + 4, "text-anchor": "end" }, number(tick)));
  }
  const turned = `translate(13 ${(top + bottom) / 2}) rotate(-90)`;
  svg.append(element("text", { class: "label", transform: turned, "text-anchor": "middle" }, axis.label));
}

function horizontalAxis(svg, axis, x, { left, right, bottom, height }) {
  const ticks = ticksOf(axis), every = Math.ceil(ticks.length / Math.max(2, Math.floor((right - left) / 75)));
  ticks.forEach((tick, i) => {
    if (i % every) return;
    const at = x(tick), last = at > right - 20;
    const place = { x: last ? right : at, y: bottom + 18, "text-anchor": last ? "end" : "middle" };
    svg.append(element("line", { class: "grid", x1: at, x2: at, y1: bottom, y2: bottom + 5 }));
    svg.append(element("text", { class: "tick", ...place }, axis.log ? number(tick) : counted(tick)));
  });
  svg.append(element("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  const under = { x: (left + right) / 2, y: height - 5, "text-anchor": "middle" };
  svg.append(element("text", { class: "label", ...under }, axis.label));
}

const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const sane = (place) => Math.min(Math.max(place, -1e4), 1e4);

function line(one, x, y) {
  const points = one.x.map((at, i) => point(x(at), sane(y(one.y[i])))).join("L");
  const path = element("path", { class: `line ${one.kind || ""}`, d: "M" + points });
  path.style.stroke = one.colour;
  return path;
}

function band(one, x, y) {
  const above = one.x.map((at, i) => point(x(at), sane(y(one.high[i]))));
  const below = one.x.map((at, i) => point(x(at), sane(y(one.low[i])))).reverse();
  const path = element("path", { class: "band", d: "M" + [...above, ...below].join("L") + "Z" });
  path.style.fill = one.colour;
  return path;
}

function dots(one, x, y) {
  if (!one.dots) return [];
  return one.x.map((at, i) => {
    const dot = element("circle", { cx: x(at), cy: sane(y(one.y[i])), r: 3.5 });
    dot.style.fill = one.colour;
    return dot;
  });
}

// Where a line goes over the top for good, an arrow says so.
const leaves = (one, [, high]) => !(one.y[one.y.length - 1] <= high);

function arrow(one, [, high], x, { top }) {
  let i = one.y.length - 1;
  while (i > 0 && !(one.y[i - 1] <= high)) i--;
  const at = x(one.x[i]);
  const mark = element("path", { class: "arrow", d: `M${at - 6} ${top + 11}L${at} ${top + 1}L${at + 6} ${top + 11}Z` });
  mark.style.fill = one.colour;
  return mark;
}

// A vertical line; its label stands above the plot, each in a line of its own.
function vertical(svg, mark, i, x, { left, right, top, bottom }) {
  const at = x(mark.x);
  if (at < left || at > right) return;
  const anchor = at > right - 60 ? "end" : at < left + 60 ? "start" : "middle";
  svg.append(element("line", { class: `mark ${mark.kind || ""}`, x1: at, x2: at, y1: top - 15 * (1 - i), y2: bottom }));
  svg.append(element("text", { class: "mark-label", x: at, y: 12 + 15 * i, "text-anchor": anchor }, mark.label));
}

// The range of a logarithmic axis that shows these series, the unbounded ones cut at `ceiling`. LSTD's line may reach
// so far below the others that it would press them together: it gets a third of a decade below them, and then leaves.
export function errorRange(series, ceiling) {
  const curves = extent(series.filter(({ kind }) => kind !== "floor"), ceiling);
  const [floor, top] = extent(series, ceiling);
  if (!(floor < top)) return [ceiling / 100, ceiling];
  const bottom = Math.max(floor, 0.3 * Math.min(curves[0], top), top * 1e-9);
  const edge = Math.max((top / bottom) ** 0.05, 1.02);
  return [bottom / edge, top * edge];
}

function extent(series, ceiling) {
  const values = series.flatMap(({ y }) => y.filter((value) => value > 0).map((value) => Math.min(value, ceiling)));
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), 0)];
}
