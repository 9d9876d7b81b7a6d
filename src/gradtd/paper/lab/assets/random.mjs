// The library's random numbers, bit for bit: SplitMix64 inside the loop, seeded as NumPy's SeedSequence does.
// JavaScript has no fast 64-bit integers, so a word is two 32-bit halves, high and low.

export const EXPERIENCE = 0, DRAWS = 1, SPLIT = 2; // what a run has its own sequence for

const UNIT = 2 ** -53;

// ---- SplitMix64 (Steele, Lea and Flood, 2014): add the golden ratio, then scramble.

export class SplitMix {
  constructor([high, low]) {
    this.high = high | 0;
    this.low = low | 0;
    this.wordHigh = 0; // the latest word drawn
    this.wordLow = 0;
  }

  // A random 64-bit word, left in wordHigh and wordLow.
  next() {
    const old = this.low, low = (old + 0x7f4a7c15) | 0;
    const carry = (old & ~low) >>> 31; // without a branch, which half the time would be guessed wrong
    const high = (this.high + 0x9e3779b9 + carry) | 0;
    this.low = low;
    this.high = high;
    this.mix(high, low);
  }

  // Scramble a word: shift and multiply, twice, and shift. Written out because it is the hottest line of the page.
  mix(high, low) {
    // x ^= x >> 30; x *= 0xbf58476d1ce4e5b9
    let l = low ^ ((low >>> 30) | (high << 2));
    let h = high ^ (high >>> 30);
    h = (timesHigh(l, 0x1ce4, 0xe5b9) + Math.imul(h, 0x1ce4e5b9) + Math.imul(l, 0xbf58476d)) | 0;
    l = Math.imul(l, 0x1ce4e5b9);
    // x ^= x >> 27; x *= 0x94d049bb133111eb
    l ^= (l >>> 27) | (h << 5);
    h ^= h >>> 27;
    h = (timesHigh(l, 0x1331, 0x11eb) + Math.imul(h, 0x133111eb) + Math.imul(l, 0x94d049bb)) | 0;
    l = Math.imul(l, 0x133111eb);
    // x ^= x >> 31
    this.wordLow = l ^ ((l >>> 31) | (h << 1));
    this.wordHigh = h ^ (h >>> 31);
  }

  // A random number in [0, 1) with 53 bits.
  unit() {
    this.next();
    return ((this.wordHigh >>> 0) * 0x200000 + (this.wordLow >>> 11)) * UNIT;
  }

  // A random index 0, ..., n - 1, for n below 2^31.
  below(n) {
    return (this.unit() * n) | 0;
  }
}

// The upper half of the 64-bit product of l and the 32-bit constant with halves c1, c0.
function timesHigh(l, c1, c0) {
  const l0 = l & 0xffff, l1 = l >>> 16;
  const middle = Math.imul(l1, c0) + (Math.imul(l0, c0) >>> 16) | 0;
  const other = (middle & 0xffff) + Math.imul(l0, c1);
  return Math.imul(l1, c1) + (middle >>> 16) + (other >>> 16) | 0;
}

// ---- NumPy's SeedSequence: hashes a seed and the path (run, purpose) to a pool of four 32-bit words.

export function seedSequence(seed, path, n) {
  const entropy = words(seed);
  if (path.length) while (entropy.length < 4) entropy.push(0);
  for (const part of path) entropy.push(...words(part));
  let constant = 0x43b0d7e5;
  const hashed = (value) => {
    value = (value ^ constant) | 0;
    constant = Math.imul(constant, 0x931e8875);
    value = Math.imul(value, constant);
    return value ^ (value >>> 16);
  };
  const mixed = (x, y) => {
    const value = (Math.imul(x, 0xca01f9dd) - Math.imul(y, 0x4973f715)) | 0;
    return value ^ (value >>> 16);
  };
  const pool = [];
  for (let i = 0; i < 4; i++) pool.push(hashed(i < entropy.length ? entropy[i] : 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mixed(pool[to], hashed(pool[from]));
  for (let from = 4; from < entropy.length; from++)
    for (let to = 0; to < 4; to++) pool[to] = mixed(pool[to], hashed(entropy[from]));
  return generated(pool, n);
}

// n 32-bit words made of a pool.
function generated(pool, n) {
  let constant = 0x8b51f9dd;
  const out = [];
  for (let i = 0; i < n; i++) {
    let value = (pool[i % 4] ^ constant) | 0;
    constant = Math.imul(constant, 0x58f38ded);
    value = Math.imul(value, constant);
    out.push((value ^ (value >>> 16)) >>> 0);
  }
  return out;
}

// A whole number (or a BigInt of 64 bits) as 32-bit words, the lowest first.
function words(value) {
  const out = [];
  let rest = BigInt(value);
  do {
    out.push(Number(rest & 0xffffffffn));
    rest >>= 32n;
  } while (rest > 0n);
  return out;
}

// The sequence that belongs to one run of one seed and one purpose.
export function seeded(seed, run, purpose) {
  const [low, high] = seedSequence(seed, [run, purpose], 2);
  return new SplitMix([high, low]);
}

// ---- The coins of split="coin": NumPy's PCG64, whose 64-bit numbers make eight coins each.

const MASK = (1n << 128n) - 1n;
const PCG_TIMES = 0x2360ed051fc65da44385df649fccf645n;

export function coins(seed, run, n) {
  const [low, high] = seedSequence(seed, [run, SPLIT], 2);
  const w = seedSequence((BigInt(high) << 32n) | BigInt(low), [], 8).map(BigInt);
  const long = (i) => (w[i + 1] << 96n) | (w[i] << 64n) | (w[i + 3] << 32n) | w[i + 2];
  const add = ((long(4) << 1n) | 1n) & MASK;
  const step = (x) => (x * PCG_TIMES + add) & MASK;
  let state = step((step(0n) + long(0)) & MASK);
  const out = new Uint8Array(n);
  for (let i = 0; i < n; i += 8) {
    state = step(state);
    let word = ((state >> 64n) ^ state) & 0xffffffffffffffffn;
    const turn = state >> 122n;
    word = ((word >> turn) | (word << (64n - turn))) & 0xffffffffffffffffn;
    for (let k = 0; k < 8 && i + k < n; k++) out[i + k] = Number((word >> BigInt(8 * k + 7)) & 1n);
  }
  return out;
}
