// Many random indices at once, in WebAssembly: it has 64-bit integers, so a draw takes a third of the time.
// The code below is SplitMix.below of random.mjs, in a loop, for a machine with a stack: operands first, then what is
// done with them. Where a browser has no WebAssembly, indices are drawn one by one and are the same.

const WHOLE = 0x7f, LONG = 0x7e, REAL = 0x7c; // types: 32-bit and 64-bit integers, 64-bit floats
const get = (local) => [0x20, local], set = (local) => [0x21, local], keep = (local) => [0x22, local];
const long = (value) => [0x42, ...packedNumber(BigInt.asIntN(64, value))], whole32 = (value) => [0x41, value];
const ADD = [0x7c], TIMES = [0x7e], SHIFT_RIGHT = [0x88], XOR = [0x85];
const LOAD_LONG = [0x29, 3, 0], STORE_LONG = [0x37, 3, 0], STORE_WHOLE = [0x36, 2, 0];
const AS_REAL = [0xb9], TIMES_REAL = [0xa2], AS_WHOLE = [0xaa], ADD_WHOLE = [0x6a], BELOW_WHOLE = [0x49];
const LOOP = [0x03, 0x40], AGAIN_IF = [0x0d, 0], END = [0x0b];

// f(at, end, scale): the state of the sequence lies at 0, indices go to at, at + 4, ... below end
const at = 0, end = 1, scale = 2, state = 3, word = 4;
const shifted = (by) => [get(word), get(word), long(by), SHIFT_RIGHT, XOR]; // word ^ (word >> by)
const CODE = [
  [whole32(0), LOAD_LONG, set(state)],
  [LOOP],
  [get(state), long(0x9e3779b97f4a7c15n), ADD, keep(state), set(word)],
  [shifted(30n), long(0xbf58476d1ce4e5b9n), TIMES, set(word)],
  [shifted(27n), long(0x94d049bb133111ebn), TIMES, set(word)],
  [get(at), shifted(31n), long(11n), SHIFT_RIGHT, AS_REAL, get(scale), TIMES_REAL, AS_WHOLE, STORE_WHOLE],
  [get(at), whole32(4), ADD_WHOLE, keep(at), get(end), BELOW_WHOLE, AGAIN_IF],
  [END],
  [whole32(0), get(state), STORE_LONG],
  [END],
].flat(Infinity);

// A signed number in the format's variable length, seven bits to a byte.
function packedNumber(value) {
  const out = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const byte = Number(rest & 0x7fn), last = rest >> 6n === 0n || rest >> 6n === -1n;
    out.push(last ? byte : byte | 0x80);
    if (last) return out;
  }
}

function assembled() {
  const part = (id, bytes) => [id, ...packedNumber(bytes.length), ...bytes];
  const body = [1, 2, LONG, ...CODE]; // one group of locals: two long ones
  const module = [
    [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    part(1, [1, 0x60, 3, WHOLE, WHOLE, REAL, 0]), // its type
    part(3, [1, 0]),
    part(5, [1, 0, 1]), // one page of memory
    part(7, [2, 1, 0x6d, 2, 0, 1, 0x66, 0, 0]), // known outside as m and f
    part(10, [1, ...packedNumber(body.length), ...body]),
  ];
  return new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(module.flat()))).exports;
}

const code = typeof WebAssembly === "object" ? assembled() : null;
const memory = code ? new Int32Array(code.m.buffer) : new Int32Array(2 + 1024);
const FIRST = 2; // the state takes the place of two indices
export const drawn = memory.subarray(FIRST);

// Draw `count` indices below n into `drawn`; advances the sequence `rng`.
export function drawIndices(rng, n, count) {
  if (!code) {
    for (let i = 0; i < count; i++) drawn[i] = rng.below(n);
    return;
  }
  memory[0] = rng.low;
  memory[1] = rng.high;
  code.f(4 * FIRST, 4 * (FIRST + count), n * 2 ** -53);
  rng.low = memory[0];
  rng.high = memory[1];
}
