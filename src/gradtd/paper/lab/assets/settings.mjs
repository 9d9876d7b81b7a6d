// What can be chosen: algorithms, their parameters, and the state of the page as a link.

export const SNAPSHOTS = 100; // besides the start
export const snapshotSteps = (steps) => Array.from({ length: SNAPSHOTS + 1 }, (_, i) => (i * steps) / SNAPSHOTS);
export const settingKey = (shared, setting) => JSON.stringify([shared, setting]);

// `takes` names the parameters that have a control; `exact` says what the dashed curve is, `why` why there is none, and
// `single` that there is one without traces only.
const FRESH = "for fresh, independent steps and unlimited data";
export const ALGORITHMS = {
  td: {
    label: "TD",
    takes: ["alpha", "lam", "start"],
    says: "Moves the weights along each TD error. Cheap, but it can diverge when the data come from another policy.",
    exact: FRESH,
  },
  tdrc: {
    label: "TDRC",
    takes: ["alpha", "eta", "lam", "start"],
    says: "TDC with a regularised second vector: a gradient method that behaves much like TD.",
    exact: FRESH,
    single: true,
  },
  gtd2: {
    label: "GTD2",
    takes: ["alpha", "eta", "lam", "start"],
    says: "A gradient method with a second vector and a second step-size, eta times the first.",
    exact: FRESH,
    single: true,
  },
  tdc: {
    label: "TDC",
    takes: ["alpha", "eta", "lam", "start"],
    says: "TD with a gradient correction; it needs a second vector and a second step-size.",
    exact: FRESH,
    single: true,
  },
  htd: {
    label: "HTD",
    takes: ["alpha", "eta", "lam", "start"],
    says: "A hybrid: it is TD when the data come from the target policy, a gradient method otherwise.",
    exact: FRESH,
    single: true,
  },
  minibatch_td: {
    label: "Mini-batch TD",
    takes: ["alpha", "lam", "batch_size", "start"],
    says: "TD averaged over a batch of past steps: less noise, and it diverges where TD does.",
    exact: "for fresh batches and unlimited data",
  },
  impression_gtd: {
    label: "Impression GTD",
    takes: ["alpha", "lam", "batch_size", "split", "start"],
    says:
      "The paper's algorithm: two batches from different episodes, multiplied. " +
      "One step-size, and it converges off-policy.",
    exact: "for fresh batches and unlimited data",
  },
  impression_gtd_auto: {
    label: "Impression GTD, automatic",
    takes: ["lam", "batch_size", "split", "start"],
    says: "Impression GTD that estimates its stability threshold and chooses the step-size during learning.",
    why: "its step-size depends on the data",
  },
  expected_gtd: {
    label: "Expected GTD",
    takes: ["alpha", "lam", "split", "start"],
    splits: ["odd-even", "coin"],
    says: "Impression GTD with every step of each buffer in its batch, kept as matrices.",
    exact: "with unlimited data from the first step on",
  },
  lstd: {
    label: "LSTD",
    takes: ["lam"],
    says: "Solves for the weights that fit all data so far. No step-size; its error is the floor for the others.",
    why: "it solves a system instead of taking steps",
  },
};

export const PARAMETERS = {
  alpha: { low: -14, high: 7, per: 8 }, // sliders are logarithmic: 2^low to 2^high, `per` stops to a doubling
  eta: { low: -6, high: 6, per: 4, default: 1 },
  lam: { low: 0, high: 1, per: 20, linear: true, default: 0 },
  batch_size: { low: 0, high: 7, per: 4, whole: true, default: 32 },
  split: { options: ["odd-even", "coin", "episode-index", "none"], default: "odd-even" },
  start: { default: 0 },
};
export const STEPS = [1000, 2000, 5000, 10000, 20000];
export const METRIC_NAMES = ["rmsve", "rmspbe", "distance"];
const MOST_CURVES = 8;

// A value that a slider stops at, short enough to be typed.
export function valueAt(name, stop) {
  const { low, per, whole, linear } = PARAMETERS[name];
  const place = low + stop / per, value = linear ? place : 2 ** place;
  return whole ? Math.round(value) : Number(value.toPrecision(3));
}

export function stopAt(name, value) {
  const { low, high, per, linear } = PARAMETERS[name];
  const place = linear ? value : Math.log2(value);
  return Math.min(Math.max(Math.round((place - low) * per), 0), (high - low) * per);
}

// The parameters that an algorithm takes, and nothing else: equal settings have equal keys.
export function settingOf(curve) {
  const setting = { algorithm: curve.algorithm };
  for (const name of ALGORITHMS[curve.algorithm].takes) setting[name] = curve[name];
  return setting;
}

// A curve with everything filled in; step-sizes not given are the problem's published ones.
export function curveOf(given, defaults) {
  const known = Object.hasOwn(ALGORITHMS, given.algorithm) ? given.algorithm : "td";
  const splits = ALGORITHMS[known].splits || PARAMETERS.split.options;
  const alpha = positive(given.alpha) || defaults[known]?.alpha || 1 / 16;
  const batch = whole(given.batch_size, 1, 512) ?? defaults[known]?.batch_size ?? PARAMETERS.batch_size.default;
  return {
    algorithm: known,
    alpha,
    eta: positive(given.eta) || PARAMETERS.eta.default,
    lam: share(given.lam) ?? PARAMETERS.lam.default,
    batch_size: batch,
    split: splits.includes(given.split) ? given.split : PARAMETERS.split.default,
    start: whole(given.start, 0, 10000) ?? PARAMETERS.start.default,
  };
}

export function positive(value) {
  const number = Number(value);
  return Number.isFinite(number) && number > 0 ? number : undefined;
}

// A number from 0 to 1
export function share(value) {
  const number = Number(value);
  return value !== null && value !== "" && number >= 0 && number <= 1 ? number : undefined;
}

export function whole(value, low, high) {
  const number = Number(value);
  return value !== null && value !== "" && Number.isInteger(number) && number >= low && number <= high
    ? number
    : undefined;
}

// ---- The state as the part of the address behind #, readable: problem=baird&curve=td~alpha:0.01

export function toLink(state) {
  const parts = ["problem", "metric", "steps", "runs", "seed", "active"].map((name) => `${name}=${state[name]}`);
  for (const curve of state.curves) {
    const { algorithm, ...rest } = settingOf(curve);
    const said = Object.entries(rest).filter(([name, value]) => value !== PARAMETERS[name].default);
    parts.push("curve=" + [algorithm, ...said.map(([name, value]) => `${name}:${value}`)].join("~"));
  }
  if (state.sweep) parts.push("sweep=1");
  return "#" + parts.join("&");
}

function decoded(value = "") {
  try {
    return decodeURIComponent(value);
  } catch {
    return "";
  }
}

// A state from a link; what a link does not say, or says wrongly, is as at first.
export function fromLink(text, data) {
  const pairs = text.replace(/^#/, "").split("&").map((part) => part.split("="));
  const last = Object.fromEntries(pairs.map(([name, value]) => [name, decoded(value)]));
  const problem = Object.hasOwn(data.defaults, last.problem) ? last.problem : "boyan_chain";
  const defaults = data.defaults[problem];
  const curves = pairs
    .filter(([name]) => name === "curve")
    .map(([, value]) => decoded(value).split("~"))
    .map(([algorithm, ...rest]) => ({ algorithm, ...Object.fromEntries(rest.map((part) => part.split(":"))) }))
    .map((given) => curveOf(given, defaults))
    .slice(0, MOST_CURVES);
  if (!curves.length) curves.push(...["impression_gtd", "td"].map((algorithm) => curveOf({ algorithm }, defaults)));
  return {
    problem,
    metric: METRIC_NAMES.includes(last.metric) ? last.metric : "rmsve",
    steps: STEPS.includes(Number(last.steps)) ? Number(last.steps) : 5000,
    runs: whole(last.runs, 1, 100) ?? 20,
    seed: whole(last.seed, 0, 2 ** 32 - 1) ?? 0,
    active: whole(last.active, 0, curves.length - 1) ?? 0,
    curves,
    sweep: last.sweep === "1",
  };
}

export const sharedOf = ({ problem, steps, runs, seed }) => ({ problem, steps, runs, seed });
export const canAdd = (state) => state.curves.length < MOST_CURVES;
