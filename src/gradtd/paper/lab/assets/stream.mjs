// A problem's tables, and the behaviour's experience on it: the same steps as gradtd.sample gives.
import { EXPERIENCE, seeded } from "./random.mjs";

// The tables of a problem as typed arrays. An outcome is a kind of step: what happens once (state, action, next state)
// is known. A step of a finite problem is the number of its kind, and y = discount x_next - x is made once per kind.
export function prepared(problem) {
  const { outcomes, features } = problem;
  const d = problem.theta0.length;
  const kinds = outcomes.reward.length;
  const x = Float64Array.from(features.flat());
  const row = new Int32Array(kinds);
  const table = {
    d,
    x,
    begin: Int32Array.from(outcomes.begin),
    keep: Float64Array.from(outcomes.keep),
    alias: Int32Array.from(outcomes.alias),
    ends: Uint8Array.from(outcomes.ends),
    row,
    nextRow: Int32Array.from(outcomes.next_state),
    reward: Float64Array.from(outcomes.reward),
    rho: Float64Array.from(outcomes.rho),
    discount: new Float64Array(kinds),
    y: new Float64Array(kinds * d),
    theta0: Float64Array.from(problem.theta0),
    probe: Float64Array.from(problem.probe),
    block: problem.block,
    nothing: new Float64Array(kinds), // no reward, in the place of rewards
    e: x, // where the trace of a step is: without traces, in its features
    place: row,
    traced: false,
  };
  for (let s = 0; s + 1 < table.begin.length; s++) table.row.fill(s, table.begin[s], table.begin[s + 1]);
  for (let k = 0; k < table.begin[table.begin.length - 2]; k++) {
    table.discount[k] = table.ends[k] ? 0 : problem.gamma;
    const here = table.row[k] * d, after = table.nextRow[k] * d;
    for (let i = 0; i < d; i++) table.y[k * d + i] = table.discount[k] * x[after + i] - x[here + i];
  }
  return table;
}

// Draw one of the outcomes of a state by Walker's alias method.
function pick(table, rng, state) {
  const begin = table.begin[state];
  const place = rng.unit() * (table.begin[state + 1] - begin);
  const whole = Math.floor(place);
  const k = begin + whole;
  return place - whole < table.keep[k] ? k : table.alias[k];
}

// The kinds of the steps of one run, and the episode each belongs to.
export function sample(table, steps, seed, run) {
  const rng = seeded(seed, run, EXPERIENCE);
  const reset = table.begin.length - 2; // behind the last state: where an episode starts
  const kind = new Int32Array(steps), episode = new Int32Array(steps);
  let state = table.nextRow[pick(table, rng, reset)];
  let number = 0;
  for (let t = 0; t < steps; t++) {
    const k = pick(table, rng, state);
    kind[t] = k;
    episode[t] = number;
    state = table.nextRow[k];
    if (table.ends[k]) {
      state = table.nextRow[pick(table, rng, reset)];
      number += 1;
    }
  }
  return { kind, episode };
}
