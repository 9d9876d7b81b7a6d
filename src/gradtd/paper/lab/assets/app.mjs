// The page: state, controls, worker and pictures wired together.
import { number } from "./chart.mjs";
import { colourOf, drawList } from "./curves.mjs";
import { asCommand, asPython } from "./outside.mjs";
import { curvesPicture, readingAt, sweepPicture } from "./pictures.mjs";
import {
  ALGORITHMS,
  PARAMETERS,
  canAdd,
  curveOf,
  fromLink,
  positive,
  settingKey,
  settingOf,
  share,
  sharedOf,
  stopAt,
  toLink,
  valueAt,
  whole,
} from "./settings.mjs";
import { METRIC_WORDS, resultSentence, stabilitySentence, theorySentence } from "./story.mjs";

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const problems = Object.fromEntries(data.problems.map((problem) => [problem.name, problem]));
const floorOf = ({ lam }) => ({ algorithm: "lstd", lam });
const SLIDERS = ["alpha", "eta", "lam", "batch_size"];
const RESULTS_KEPT = 300;
const SWEEP_SAYS =
  "The error after the last step, for many step-sizes. Right of alpha* the mean square is unbounded. Runs may leave " +
  "below it, because early on their buffers contain few steps. Click to choose a step-size.";

let state = fromLink(location.hash, data);
const results = new Map(), theories = new Map(); // by key of a setting
const shown = new Map(); // what each place of the list showed last, until its new result is there
let sweepResult = null;
let view = null; // scales of the chart, for the pointer

// ---- The worker. One request is under way at a time; the newest one waits for its first answer.

const worker = new Worker(URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" })));
const waiting = new Map();
let request = 0, busy = false, pending = false, sweepRequest = 0;

worker.postMessage({ type: "tables", problems: data.problems });
worker.onerror = (event) => say(`The kernel stopped: ${event.message}`);
worker.onmessage = ({ data: answer }) => {
  if (answer.type === "curve") keep(results, answer);
  if (answer.type === "theory") keep(theories, answer);
  if (answer.type === "sweep" && answer.request === sweepRequest) sweepResult = answer;
  if (answer.type === "weights") {
    waiting.get(answer.request)(answer.runs);
    waiting.delete(answer.request);
    return;
  }
  if (busy && answer.type === "curve" && answer.request === request) {
    busy = false;
    if (pending) ask();
  }
  if (answer.type === "done" && answer.request === request && !pending) lab.settled = true;
  if (answer.type === "sweep") drawSweep();
  else if (answer.type !== "done") draw();
  if (answer.type === "curve" && answer.key === keyOf(active())) clock(answer.done === answer.runs);
};

// How long the latest change took to show first, and to show in full.
function clock(complete) {
  const passed = performance.now() - lab.moved;
  lab.first ??= passed;
  if (complete) lab.complete ??= passed;
}

function keep(map, answer) {
  if (map.size > RESULTS_KEPT) map.clear();
  map.set(answer.key, answer);
}

function ask() {
  lab.settled = false;
  if (busy) {
    pending = true;
    return;
  }
  busy = true;
  pending = false;
  const others = state.curves.filter((_, i) => i !== state.active);
  const curves = [active(), ...others].map(settingOf);
  worker.postMessage({ type: "show", request: ++request, shared: sharedOf(state), curves });
}

function askSweep() {
  sweepResult = null;
  $("sweep-view").hidden = !state.sweep;
  $("sweep").setAttribute("aria-pressed", String(state.sweep));
  $("sweep").textContent = state.sweep ? "Hide the step-size sweep" : "Where does it become unstable?";
  if (!state.sweep) return;
  drawSweep();
  if (!hasStepSize(active())) return;
  worker.postMessage({ type: "sweep", request: ++sweepRequest, shared: sharedOf(state), setting: settingOf(active()) });
}

// ---- Changes. Everything goes through `change`, so the link, the controls and the picture always agree.

const active = () => state.curves[state.active];
const hasStepSize = (curve) => ALGORITHMS[curve.algorithm].takes.includes("alpha");
const keyOf = (curve) => settingKey(sharedOf(state), settingOf(curve));

function change(edit, { sweep = true } = {}) {
  edit(state);
  Object.assign(lab, { moved: performance.now(), first: null, complete: null });
  $("figure-note").textContent = "";
  $("figure").value = "";
  history.replaceState(null, "", toLink(state));
  drawControls();
  draw();
  ask();
  if (sweep) askSweepSoon();
}

let sweepTimer = 0;
function askSweepSoon() {
  clearTimeout(sweepTimer);
  sweepTimer = setTimeout(askSweep, state.sweep ? 250 : 0);
}

function setActive(values) {
  const moved = Object.keys(values).some((name) => name !== "alpha");
  change((s) => (s.curves[s.active] = curveOf({ ...active(), ...values }, data.defaults[s.problem])), { sweep: moved });
  if (!moved && state.sweep) drawSweep();
}

function setProblem(name) {
  // Step-sizes do not carry over from one problem to another: take the published ones.
  change((s) => {
    s.problem = name;
    s.curves = s.curves.map(({ algorithm, split }) => curveOf({ algorithm, split }, data.defaults[name]));
  });
}

function setFigure(figure) {
  change((s) => {
    Object.assign(s, { problem: figure.problem, metric: figure.metric, steps: figure.steps });
    s.curves = figure.curves.map((curve) => curveOf(curve, data.defaults[figure.problem]));
    s.active = Math.max(0, s.curves.findIndex((curve) => curve.algorithm === "impression_gtd"));
  });
  $("figure").value = figure.name;
  const left = figure.left_out.length ? `Not drawn here: ${figure.left_out.join(", ")}. ` : "";
  $("figure-note").textContent = left + figure.note;
}

// ---- Controls.

function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
}

function fillControls() {
  options($("problem"), data.problems.map(({ name, title }) => [name, title]));
  options($("algorithm"), Object.entries(ALGORITHMS).map(([name, { label }]) => [name, label]));
  options($("metric"), Object.entries(METRIC_WORDS));
  const named = data.figures.map(({ name, title }) => [name, title]);
  options($("figure"), [["", "choose a figure"], ...named]);
  for (const name of SLIDERS) {
    const { low, high, per } = PARAMETERS[name];
    $(name).max = (high - low) * per;
    $(name).oninput = () => setActive({ [name]: valueAt(name, Number($(name).value)) });
    $(`${name}-typed`).onchange = ({ target }) => setActive({ [name]: typed(name, target.value) });
  }
  $("problem").onchange = ({ target }) => setProblem(target.value);
  $("algorithm").onchange = ({ target }) => {
    change((s) => (s.curves[s.active] = curveOf({ algorithm: target.value }, data.defaults[s.problem])));
  };
  $("split").onchange = ({ target }) => setActive({ split: target.value });
  $("start").onchange = ({ target }) => setActive({ start: whole(target.value, 0, 10000) ?? active().start });
  $("metric").onchange = ({ target }) => change((s) => (s.metric = target.value));
  $("steps").onchange = ({ target }) => change((s) => (s.steps = Number(target.value)));
  $("runs").oninput = ({ target }) => change((s) => (s.runs = Number(target.value)));
  $("seed").onchange = ({ target }) => change((s) => (s.seed = whole(target.value, 0, 2 ** 32 - 1) ?? s.seed));
  $("figure").onchange = ({ target }) => {
    const figure = data.figures.find(({ name }) => name === target.value);
    if (figure) setFigure(figure);
  };
  $("add").onclick = () => change((s) => {
    if (canAdd(s)) s.active = s.curves.push({ ...active() }) - 1;
  });
  $("sweep").onclick = () => change((s) => (s.sweep = !s.sweep));
  $("to-edge").onclick = () => {
    const limit = theories.get(keyOf(active()))?.threshold;
    if (limit > 0) setActive({ alpha: Number(limit.toPrecision(3)) });
  };
  $("copy-python").onclick = () => copy(asPython(state, active()), "Python");
  $("copy-command").onclick = () => copy(asCommand(state, active()), "a command");
  $("copy-link").onclick = () => copy(location.href, "a link");
}

function typed(name, text) {
  const [top, bottom] = text.split("/");
  const value = bottom === undefined ? Number(top) : Number(top) / Number(bottom);
  const { whole: counts, linear } = PARAMETERS[name];
  return (counts ? whole(value, 1, 512) : linear ? share(value) : positive(value)) ?? active()[name];
}

function drawControls() {
  const curve = active(), { takes, says, splits } = ALGORITHMS[curve.algorithm];
  for (const name of ["problem", "metric", "steps", "runs", "seed"]) $(name).value = state[name];
  $("runs-value").textContent = state.runs;
  $("problem-says").textContent = problems[state.problem].says;
  $("algorithm").value = curve.algorithm;
  $("algorithm-says").textContent = says;
  for (const name of Object.keys(PARAMETERS)) $(`${name}-row`).hidden = !takes.includes(name);
  for (const name of SLIDERS) {
    $(name).value = stopAt(name, curve[name]);
    $(name).setAttribute("aria-valuetext", number(curve[name]));
    if (document.activeElement !== $(`${name}-typed`)) $(`${name}-typed`).value = String(curve[name]);
  }
  const allowed = splits || PARAMETERS.split.options;
  for (const option of $("split").options) option.disabled = !allowed.includes(option.value);
  $("split").value = curve.split;
  $("start").value = curve.start;
  $("add").disabled = !canAdd(state);
  const heading = state.curves.length > 1 ? `Curve ${state.active + 1}` : "Algorithm";
  $("active-heading").textContent = heading;
  $("active-box").style.setProperty("--own", colourOf(state.active));
}

async function copy(text, what) {
  $("copied-text").textContent = text;
  $("copied").hidden = false;
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: the run as ${what}.`);
  } catch {
    getSelection().selectAllChildren($("copied-text"));
    say("The browser did not allow copying; the text is selected below.");
  }
}

const say = (text) => ($("said").textContent = text);

// ---- Pictures.

// The result of a curve, or what its place showed before, as long as that was on the same problem and steps.
function resultOf(curve, place) {
  const found = results.get(keyOf(curve));
  const about = [state.problem, state.steps].join();
  if (found) shown.set(place, { about, found });
  const last = shown.get(place);
  return found || (last && last.about === about ? last.found : undefined);
}

function draw() {
  const found = state.curves.map(resultOf);
  const floor = resultOf(floorOf(active()), "floor");
  const theory = theories.get(keyOf(active()));
  drawList($("curves"), state, (_, i) => found[i], {
    choose: (i) => change((s) => (s.active = i)),
    remove: (i) => change((s) => {
      s.curves.splice(i, 1);
      shown.clear();
      s.active = Math.min(s.active - (i < s.active), s.curves.length - 1);
    }),
  });
  view = curvesPicture($("chart"), state, found, floor, theory);
  drawEdge(theory);
  const result = found[state.active];
  const sentences = result ? [resultSentence(active(), result, floor, state.metric)] : [];
  sentences.push(stabilitySentence(active(), theory, result));
  $("story").textContent = sentences.join(" ");
  $("theory-says").textContent = theorySentence(active(), problems[state.problem].finite_below);
  $("chart").setAttribute("aria-label", `${METRIC_WORDS[state.metric]} by steps. ${$("story").textContent}`);
  $("key-theory").hidden = !theory?.curve;
  $("key-floor").hidden = active().algorithm === "lstd";
}

// alpha* beside the slider of the step-size.
function drawEdge(theory) {
  const limit = theory?.threshold, mark = $("edge");
  const { low, high } = PARAMETERS.alpha;
  mark.hidden = !(limit > 0);
  $("to-edge").hidden = !(limit > 0);
  if (limit > 0) {
    const share = Math.min(Math.max((Math.log2(limit) - low) / (high - low), 0), 1);
    mark.style.setProperty("--at", share);
    $("to-edge").textContent = `go to alpha* = ${number(limit)}`;
  }
}

function drawSweep() {
  const svg = $("sweep-chart"), none = !hasStepSize(active());
  svg.toggleAttribute("hidden", none);
  const { label } = ALGORITHMS[active().algorithm];
  $("sweep-says").textContent = none ? `${label} has no step-size to choose.` : SWEEP_SAYS;
  if (none || !sweepResult) {
    svg.replaceChildren();
    return;
  }
  const start = results.get(keyOf(active()))?.metrics[state.metric].mean[0] || 1;
  const { x } = sweepPicture(svg, state, sweepResult, start);
  svg.onclick = (event) => {
    const place = event.clientX - svg.getBoundingClientRect().left;
    setActive({ alpha: Number(x.back(place).toPrecision(3)) });
  };
}

// The values under the pointer.
function read(event) {
  if (!view) return;
  const step = view.x.back(event.clientX - $("chart").getBoundingClientRect().left);
  $("reading").textContent = readingAt(view.series, Math.min(Math.max(step, 0), state.steps));
}

// ---- Begin.

// For tests and the console: the weights of a setting as the kernel here makes them, and how long things took.
const lab = {
  settled: false,
  state: () => state,
  weights: (shared, setting) => new Promise((resolve) => {
    waiting.set(++request, resolve);
    worker.postMessage({ type: "weights", request, shared, setting });
  }),
};
window.gradtdLab = lab;

window.addEventListener("hashchange", () => {
  state = fromLink(location.hash, data);
  shown.clear();
  change(() => {});
});
new ResizeObserver(() => {
  draw();
  if (state.sweep) drawSweep();
}).observe($("chart"));
$("chart").addEventListener("pointermove", read);
$("chart").addEventListener("pointerleave", () => ($("reading").textContent = ""));
fillControls();
change(() => {});
