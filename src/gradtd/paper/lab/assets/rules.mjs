// The algorithms, each as short as its equation, with the library's names and order of operations.
//
// A rule says what it keeps besides theta (`init`), what it needs drawn (`draws`), what it does with every step
// (`observe`) and how it learns (`update`). `s` is its state, `k` the kind of the latest step, `now` the rest. The trace e
// of a step is phi where lam is 0.
import {
  addFeatures,
  addGradient,
  addNextFeatures,
  addScaled,
  addToSums,
  addTrace,
  addTraceLessFeatures,
  batchTdUpdate,
  batchTransposeApply,
  dot,
  matrixApply,
  matrixTransposeApply,
  projected,
  scaleBy,
  tdError,
  traced,
} from "./estimates.mjs";

const zeros = (...names) => (d) => Object.fromEntries(names.map((name) => [name, new Float64Array(d)]));

// TD: theta += alpha rho delta e
function td(s, table, k, now) {
  addTrace(table, k, now.alpha * (table.rho[k] * tdError(table, k, s.theta)), s.theta);
}

// GTD2: theta -= alpha rho y (e.w);  w += eta alpha (rho delta e - (phi.w) phi)
function gtd2(s, table, k, now) {
  const rho = table.rho[k], delta = tdError(table, k, s.theta);
  const alongE = traced(table, k, s.w), along = projected(table, k, s.w);
  addGradient(table, k, -now.alpha * rho * alongE, s.theta);
  addTraceLessFeatures(table, k, now.eta * now.alpha, rho * delta, along, s.w);
}

// TDC: theta += alpha rho (delta e - gamma (1 - lam) phi' (e.w));  w as in GTD2
function tdc(s, table, k, now) {
  const rho = table.rho[k], delta = tdError(table, k, s.theta);
  const alongE = traced(table, k, s.w), along = projected(table, k, s.w);
  addTrace(table, k, now.alpha * rho * delta, s.theta);
  addNextFeatures(table, k, -(1 - now.lam) * now.alpha * rho * alongE, s.theta);
  addTraceLessFeatures(table, k, now.eta * now.alpha, rho * delta, along, s.w);
}

// TDRC: theta as in TDC;  w += eta alpha (rho delta e - (phi.w) phi - w)
function tdrc(s, table, k, now) {
  const rho = table.rho[k], delta = tdError(table, k, s.theta);
  const alongE = traced(table, k, s.w), along = projected(table, k, s.w);
  addTrace(table, k, now.alpha * rho * delta, s.theta);
  addNextFeatures(table, k, -(1 - now.lam) * now.alpha * rho * alongE, s.theta);
  scaleBy(s.w, 1 - now.eta * now.alpha * 1);
  addTraceLessFeatures(table, k, now.eta * now.alpha, rho * delta, along, s.w);
}

// HTD: theta += alpha (rho delta phi - (rho - 1) y (phi.w));  w += eta alpha (rho delta phi + y (phi.w))
function htd(s, table, k, now) {
  if (table.traced) return htdWithTraces(s, table, k, now);
  const rho = table.rho[k], delta = tdError(table, k, s.theta), along = projected(table, k, s.w);
  addFeatures(table, k, now.alpha * rho * delta, s.theta);
  addGradient(table, k, -now.alpha * (rho - 1) * along, s.theta);
  addFeatures(table, k, now.eta * now.alpha * rho * delta, s.w);
  addGradient(table, k, now.eta * now.alpha * along, s.w);
}

// HTD(lam): theta += alpha (rho delta e - y (rho e - f).w);  w += eta alpha (rho delta e + y (f.w))
function htdWithTraces(s, table, k, now) {
  const rho = table.rho[k], delta = tdError(table, k, s.theta);
  const alongE = traced(table, k, s.w), alongF = dot(s.f, s.w);
  addTrace(table, k, now.alpha * rho * delta, s.theta);
  addGradient(table, k, -now.alpha * (rho * alongE - alongF), s.theta);
  addTrace(table, k, now.eta * now.alpha * rho * delta, s.w);
  addGradient(table, k, now.eta * now.alpha * alongF, s.w);
}

// f = gamma lam f + phi, HTD's second trace, which holds no ratios
function traceWithoutRatio(s, table, k, now) {
  if (!table.traced) return;
  scaleBy(s.f, now.goesOn ? now.lam * s.carried : 0);
  addFeatures(table, k, 1, s.f);
  s.carried = table.discount[k];
}

// Mini-batch TD: theta += alpha times the mean of rho delta e over a batch
function minibatchTd(s, table, k, now) {
  batchTdUpdate(table, now.first, s.theta, s.u);
  addScaled(s.theta, now.alpha, s.u);
}

// Impression GTD: theta -= alpha A1'(A2 theta + b2), two batches from different episodes
function impressionGtd(s, table, k, now) {
  batchTdUpdate(table, now.second, s.theta, s.u);
  batchTransposeApply(table, now.first, s.u, s.g);
  addScaled(s.theta, -now.alpha, s.g);
}

// Expected GTD: the same with all steps of each buffer, kept as sums
function expectedGtd(s, table, k, now) {
  matrixApply(s.A2, s.theta, s.u);
  addScaled(s.u, 1, s.b2);
  scaleBy(s.u, 1 / s.n2);
  matrixTransposeApply(s.A1, s.u, s.g);
  scaleBy(s.g, 1 / s.n1);
  addScaled(s.theta, -now.alpha, s.g);
}

function addToOwnBuffer(s, table, k, now) {
  if (now.side === 0) {
    addToSums(table, k, s.A1, s.b1);
    s.n1 += 1;
  } else {
    addToSums(table, k, s.A2, s.b2);
    s.n2 += 1;
  }
}

// LSTD: theta solves (sum of A_t) theta + sum of b_t = 0; the inverse is kept by Sherman and Morrison's formula
function lstd(s, table, k) {
  addScaled(s.theta, tdError(table, k, s.theta), s.left);
}

function addStepToInverse(s, table, k) {
  s.x.fill(0);
  addTrace(table, k, table.rho[k], s.x);
  s.y.fill(0);
  addGradient(table, k, -1, s.y);
  matrixApply(s.inverse, s.x, s.left);
  matrixTransposeApply(s.inverse, s.y, s.right);
  const denominator = 1 + dot(s.y, s.left);
  if (Math.abs(denominator) < 1e-12) {
    s.left.fill(0);
    return;
  }
  const d = table.d, scale = 1 / denominator;
  for (let i = 0; i < d; i++) {
    s.left[i] *= scale;
    for (let j = 0; j < d; j++) s.inverse[i * d + j] += -s.left[i] * s.right[j];
  }
}

function inverseFields(d) {
  const inverse = new Float64Array(d * d);
  for (let i = 0; i < d; i++) inverse[i * d + i] = 1 / 1e-3; // the library's ridge
  return { inverse, ...zeros("x", "y", "left", "right")(d) };
}

// ---- Impression GTD with alpha="auto" (gradtd.algorithms.auto_step says why)

const WATCHES = 75; // pairs of batches to look at before the first update
const LOWEST = 1 / 6, HIGHEST = 1 / 2, SURPRISE = 1 / 4, CAREFUL = 2, FADES = 500, GROWN = 3000;

function impressionGtdAuto(s, table, k, now) {
  batchTdUpdate(table, now.second, s.theta, s.u);
  batchTdUpdate(table, now.second, s.z, s.v, table.nothing);
  const loss = batchTransposeApply(table, now.first, s.u, s.g);
  batchTransposeApply(table, now.first, s.v, s.q);
  stepAndLearn(s, loss + dot(s.theta, s.g));
}

// theta -= alpha g with the alpha learned before; then learn from g, q = G z and this estimate of the loss
function stepAndLearn(s, loss) {
  let n = s.seen;
  const squared = dot(s.g, s.g);
  if (n >= WATCHES) {
    let alpha = s.nextAlpha;
    const known = SURPRISE * (n / 2 + 100) * s.squared;
    if (squared > known) alpha *= Math.sqrt(known / squared);
    s.alpha = alpha;
    addScaled(s.theta, -alpha, s.g);
  }
  n += 1;
  s.seen = n;
  let weight = 1 / Math.min(n, n / 4 + 20);
  s.along += weight * (dot(s.z, s.q) - s.along);
  s.length += weight * (dot(s.q, s.q) - s.length);
  weight = 1 / Math.min(n, n / 2 + 100);
  s.loss += weight * (loss - s.loss);
  s.lossSquared += weight * (loss * loss - s.lossSquared);
  s.squared += weight * (squared - s.squared);
  const threshold = s.along > 0 && s.length > 0 ? (2 * s.along) / s.length : 0;
  let alpha = LOWEST * threshold * Math.min(1, n / GROWN);
  const spread = Math.max(0, s.lossSquared - s.loss * s.loss);
  const careful = n <= FADES ? CAREFUL : CAREFUL * (FADES / n) * (FADES / n);
  const sure = s.loss - careful * Math.sqrt(weight * spread);
  if (s.squared > 0 && sure / s.squared > alpha) alpha = Math.min(sure / s.squared, HIGHEST * threshold);
  s.nextAlpha = alpha;
  addScaled(s.z, -threshold, s.q);
  const size = Math.sqrt(dot(s.z, s.z));
  if (size > 0) scaleBy(s.z, 1 / size);
}

function autoFields(d, table) {
  const numbers = { seen: 0, along: 0, length: 0, loss: 0, lossSquared: 0, squared: 0, nextAlpha: 0, alpha: 0 };
  return { ...zeros("u", "v", "g", "q")(d), ...numbers, z: table.probe.slice() };
}

const none = () => ({});
const second = zeros("w");

// `chosen` rules find their step-size themselves: 0 while they only watch. Those that average report the average.
export const RULES = {
  td: { init: none, draws: "nothing", update: td },
  tdrc: { init: second, draws: "nothing", update: tdrc },
  gtd2: { init: second, draws: "nothing", update: gtd2 },
  tdc: { init: second, draws: "nothing", update: tdc },
  htd: {
    init: (d) => ({ ...zeros("w", "f")(d), carried: 0 }),
    draws: "nothing",
    observe: traceWithoutRatio,
    update: htd,
  },
  minibatch_td: { init: zeros("u"), draws: "one batch", update: minibatchTd },
  impression_gtd: { init: zeros("u", "g"), draws: "two batches", update: impressionGtd },
  impression_gtd_auto: {
    init: autoFields,
    draws: "two batches",
    update: impressionGtdAuto,
    chosen: (s) => s.alpha,
    watches: WATCHES,
    averages: true,
  },
  expected_gtd: {
    init: (d) => ({
      ...zeros("u", "g", "b1", "b2")(d),
      ...zeros("A1", "A2")(d * d),
      n1: 0,
      n2: 0,
    }),
    draws: "two buffers",
    observe: addToOwnBuffer,
    update: expectedGtd,
  },
  lstd: { init: inverseFields, draws: "nothing", observe: addStepToInverse, update: lstd, stepSize: false },
};
