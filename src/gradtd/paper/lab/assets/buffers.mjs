// Independence sampling: which buffer a step belongs to, and drawing batches.
//
// As in the library, `members` lists the steps of buffer 1 and then those of buffer 2 in the order they arrive, and
// inserting a step moves a counter. Here a member is the kind of its step, which is all that a rule asks of it.
import { drawIndices, drawn } from "./indices.mjs";
import { coins } from "./random.mjs";

// How the two batches are kept independent; the words are those of gradtd.
export const SPLITS = ["odd-even", "coin", "episode-index", "none"];

export function makeBuffers(stream, split, block, seed, run) {
  const steps = stream.kind.length;
  const unit = block ? Int32Array.from(stream.episode, (_, t) => Math.floor(t / block)) : stream.episode;
  const side = sides(unit, split, seed, run);
  const first = side.reduce((n, s) => n + (s === 0), 0);
  const members = new Int32Array(steps);
  const at = [0, first];
  for (let t = 0; t < steps; t++) members[at[side[t]]++] = stream.kind[t];
  return { side, members, unit, begin: [0, first], arrived: [0, 0], split };
}

function sides(unit, split, seed, run) {
  if (split === "odd-even") return Uint8Array.from(unit, (u) => 1 - (u % 2));
  if (split === "coin") {
    const tossed = coins(seed, run, unit[unit.length - 1] + 1);
    return Uint8Array.from(unit, (u) => tossed[u]);
  }
  return new Uint8Array(unit.length);
}

// The step before which batches of these sizes cannot be drawn, or -1 where they never can.
export function filledAfter(buffers, fill1, fill2) {
  const steps = buffers.side.length;
  if (buffers.split === "odd-even" || buffers.split === "coin") {
    const wanted = [fill1, fill2];
    const seen = [0, 0], at = [-1, -1];
    for (let t = 0; t < steps; t++) {
      const s = buffers.side[t];
      if (seen[s]++ === wanted[s]) at[s] = t;
    }
    return at[0] < 0 || at[1] < 0 ? -1 : Math.max(at[0], at[1]);
  }
  const needed = buffers.split === "episode-index" ? fill1 + fill2 : Math.max(fill1, fill2);
  return steps > needed ? needed : -1;
}

// Fill a batch from one buffer, uniformly and with replacement.
function draw(buffers, side, rng, batch) {
  const n = buffers.arrived[side], begin = buffers.begin[side], members = buffers.members;
  drawIndices(rng, n, batch.length);
  for (let i = 0; i < batch.length; i++) batch[i] = members[begin + drawn[i]];
}

// Deal the episodes of the one buffer to two batches with fresh coins; false where no deal was found that fills both.
function drawDealt(buffers, rng, first, second) {
  for (let attempt = 0; attempt < 32; attempt++) {
    rng.next();
    const coin = [rng.wordHigh, rng.wordLow];
    if (drawWithCoin(buffers, rng, coin, 0, first) && drawWithCoin(buffers, rng, coin, 1, second)) return true;
  }
  return false;
}

function drawWithCoin(buffers, rng, [high, low], wanted, batch) {
  const n = buffers.arrived[0];
  let tries = 0, i = 0;
  while (i < batch.length) {
    if (++tries > 64 + 64 * batch.length) return false;
    const place = rng.below(n);
    const sum = (low >>> 0) + buffers.unit[place]; // a 64-bit sum: the carry goes to the upper half
    rng.mix((high + (sum > 0xffffffff ? 1 : 0)) | 0, sum | 0);
    if ((rng.wordLow & 1) === wanted) batch[i++] = buffers.members[place];
  }
  return true;
}

// What a rule needs drawn at each step; false before learning can start.
export const DRAWS_OF = {
  nothing: () => true,
  "one batch": (buffers, rng, plan) => {
    if (buffers.arrived[0] <= plan.m1) return false;
    draw(buffers, 0, rng, plan.first);
    return true;
  },
  "two buffers": (buffers) => buffers.arrived[0] > 0 && buffers.arrived[1] > 0,
  "two batches": (buffers, rng, plan) => {
    if (buffers.split === "episode-index") {
      const several = buffers.arrived[0] > 0 && buffers.unit[buffers.arrived[0] - 1] !== buffers.unit[0];
      return buffers.arrived[0] > plan.m1 + plan.m2 && several && drawDealt(buffers, rng, plan.first, plan.second);
    }
    const other = buffers.split === "none" ? 0 : 1;
    const enough =
      other === 0
        ? buffers.arrived[0] > Math.max(plan.m1, plan.m2)
        : buffers.arrived[0] > plan.m1 && buffers.arrived[1] > plan.m2;
    if (!enough) return false;
    draw(buffers, 0, rng, plan.first);
    draw(buffers, other, rng, plan.second);
    return true;
  },
};
