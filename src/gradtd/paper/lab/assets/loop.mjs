// The one loop: insert, draw, update, average, snapshot. Every rule runs through it, as in the library.
import { DRAWS_OF, filledAfter, makeBuffers } from "./buffers.mjs";
import { addScaled, scaleBy } from "./estimates.mjs";
import { DRAWS, seeded } from "./random.mjs";
import { RULES } from "./rules.mjs";
import { withTraces } from "./traces.mjs";

const LIMIT = 1e12; // a run with a weight beyond this has diverged
const AVERAGE_POWER = 3; // the polynomial average that alpha="auto" reports

// One run of one setting over one stream: `thetas` at the snapshots, row by row, and what became of it.
// `setting` holds algorithm, alpha, eta, lam, batch_size, split and start; `at` the steps of the snapshots, from 0 up.
export function runOnce(given, drawnSteps, setting, seed, run, at) {
  const { table, stream } = withTraces(given, drawnSteps, setting.lam);
  const rule = RULES[setting.algorithm];
  const d = table.d, steps = stream.kind.length;
  const out = { thetas: new Float64Array(at.length * d), alpha: NaN, divergedAt: -1, firstUpdate: -1 };
  const theta = table.theta0.slice(), average = new Float64Array(d);
  const plan = planOf(rule, setting);
  const buffers = plan.split && makeBuffers(stream, plan.split, table.block, seed, run);
  if (buffers && neverLearns(buffers, rule, plan, steps)) {
    for (let i = 0; i < at.length; i++) out.thetas.set(theta, i * d);
    return out;
  }
  const rng = seeded(seed, run, DRAWS);
  const draw = DRAWS_OF[rule.draws];
  const state = { theta, ...rule.init(d, table) };
  const now = { ...plan, side: 0, alpha: setting.alpha, eta: setting.eta, lam: setting.lam || 0, goesOn: false };
  let averaged = 0, updates = 0, taken = 0;
  const keep = () => copyTo(out.thetas, taken++ * d, averaged > 0 ? average : theta);
  if (at[0] === 0) keep();
  for (let seen = 1; seen <= steps; seen++) {
    const t = seen - 1, k = stream.kind[t];
    if (buffers) {
      now.side = buffers.side[t];
      buffers.arrived[now.side] += 1;
    }
    now.goesOn = t > 0 && stream.episode[t] === stream.episode[t - 1];
    if (rule.observe) rule.observe(state, table, k, now);
    if (draw(buffers, rng, plan) && seen > plan.start) {
      rule.update(state, table, k, now);
      const step = rule.chosen ? rule.chosen(state) : now.alpha;
      if (step !== 0) {
        if (updates === 0) out.firstUpdate = seen;
        out.alpha = step;
        updates += 1;
      }
    }
    if (rule.averages && updates > 0) {
      averaged += 1;
      const weight = (AVERAGE_POWER + 1) / (averaged + AVERAGE_POWER);
      scaleBy(average, 1 - weight);
      addScaled(average, weight, theta);
    }
    if (at[taken] === seen) keep();
    if (!within(theta)) {
      for (; taken < at.length; taken++) copyTo(out.thetas, taken * d, theta);
      out.divergedAt = seen;
      break;
    }
  }
  return out;
}

function planOf(rule, setting) {
  const batches = rule.draws === "two batches" || rule.draws === "one batch";
  const m1 = batches ? setting.batch_size : 0;
  const m2 = rule.draws === "two batches" ? setting.batch_size : 0;
  const split = { nothing: null, "one batch": "none" }[rule.draws];
  return {
    m1,
    m2,
    first: new Int32Array(m1),
    second: new Int32Array(m2),
    start: setting.start || 0,
    split: split === undefined ? setting.split : split,
  };
}

// Whether the buffers never hold enough, or a rule that watches first would never come to learn.
function neverLearns(buffers, rule, plan, steps) {
  const filled = filledAfter(buffers, plan.m1, plan.m2);
  if (filled < 0) return true;
  return Boolean(rule.watches) && steps - Math.max(plan.start, filled) <= rule.watches;
}

// Whether every weight lies in [-LIMIT, LIMIT]; NaN does not.
function within(theta) {
  for (let i = 0; i < theta.length; i++) if (!(Math.abs(theta[i]) <= LIMIT)) return false;
  return true;
}

// Copy weights, cut at the limit so that what is kept is always finite.
function copyTo(out, at, theta) {
  for (let i = 0; i < theta.length; i++) {
    const value = theta[i];
    out[at + i] = !(value <= LIMIT) ? LIMIT : value < -LIMIT ? -LIMIT : value;
  }
}
