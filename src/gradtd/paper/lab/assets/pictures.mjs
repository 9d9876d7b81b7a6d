// The two pictures: learning curves, and the error at the end by step-size.
import { drawChart, errorRange, number } from "./chart.mjs";
import { colourOf } from "./curves.mjs";
import { ALGORITHMS } from "./settings.mjs";
import { METRIC_WORDS } from "./story.mjs";

const MOST_BANDS = 3; // with more curves only the active one has a band
const CEILING = 4; // times the error at the start: what goes beyond leaves through the top

function seriesOf(result, metric, look) {
  const { mean, low, high } = result.metrics[metric];
  return { x: result.steps, y: mean, low, high, ...look };
}

// `found` holds the result of each curve, or nothing while it is not there yet. Returns the scales and what was drawn.
export function curvesPicture(svg, state, found, floor, theory) {
  const { metric, active } = state, series = [];
  const labelOf = (i) => ALGORITHMS[state.curves[i].algorithm].label;
  if (floor && state.curves[active].algorithm !== "lstd")
    series.push(seriesOf(floor, metric, { colour: "var(--floor)", kind: "floor", label: "LSTD", low: null }));
  found.forEach((result, i) => {
    if (!result || i === active) return;
    const look = { colour: colourOf(i), kind: "other", label: labelOf(i) };
    series.push(seriesOf(result, metric, state.curves.length > MOST_BANDS ? { ...look, low: null } : look));
  });
  if (found[active])
    series.push(seriesOf(found[active], metric, { colour: colourOf(active), kind: "own", label: labelOf(active) }));
  const first = series.length ? series[0].y[0] : NaN;
  if (theory?.curve)
    series.push({ x: theory.steps, y: theory.curve[metric], colour: "var(--theory)", kind: "exact", label: "theory" });
  if (!(first > 0)) return null;
  const y = { range: errorRange(series, CEILING * first), log: true, label: METRIC_WORDS[metric] };
  const x = { range: [0, state.steps], label: "steps of experience" };
  return { series, ...drawChart(svg, { x, y, series }) };
}

// `start` is the error before the first step.
export function sweepPicture(svg, state, { points, threshold, span }, start) {
  const alphas = points.map((point) => point.alpha), { metric } = state;
  const measured = points.map((point) => point.mean[metric]);
  const series = [{ x: alphas, y: measured, colour: colourOf(state.active), dots: true }];
  if (points[0].exact)
    series.push({ x: alphas, y: points.map((point) => point.exact[metric]), colour: "var(--theory)", kind: "exact" });
  const marks = [{ x: state.curves[state.active].alpha, label: "now", kind: "now" }];
  if (threshold > 0) marks.push({ x: threshold, label: `alpha* = ${number(threshold)}`, kind: "edge" });
  const x = { range: span, log: true, label: "step-size alpha" };
  const y = { range: errorRange(series, CEILING * start), log: true, label: "final error" };
  return drawChart(svg, { x, y, series, marks });
}

// What every series shows at a step, in words.
export function readingAt(series, step) {
  const parts = series.map(({ x, y, label }) => {
    let i = 0;
    while (i + 1 < x.length && Math.abs(x[i + 1] - step) <= Math.abs(x[i] - step)) i++;
    return `${label} ${number(y[i])}`;
  });
  return `step ${Math.round(step).toLocaleString("en")}: ${parts.join(", ")}`;
}
