// The loops over features, in the library's order of sums. A number k is the kind of a step, a batch an array of kinds.
// e is the trace of a step; without traces it is x, and read from where x is.
// JavaScript neither fuses a product with a sum nor reorders sums, so equal order means equal bytes.

// delta = r + y . theta, without its ratio
export function tdError(table, k, theta) {
  return table.reward[k] + difference(table, k, theta);
}

// x . u
export function projected(table, k, u) {
  const { x, d } = table;
  const at = table.row[k] * d;
  let total = 0;
  for (let i = 0; i < d; i++) total += x[at + i] * u[i];
  return total;
}

// y . u
export function difference(table, k, u) {
  const { y, d } = table;
  const at = k * d;
  let total = 0;
  for (let i = 0; i < d; i++) total += y[at + i] * u[i];
  return total;
}

// out += c x
export function addFeatures(table, k, c, out) {
  const { x, d } = table;
  const at = table.row[k] * d;
  for (let i = 0; i < d; i++) out[i] += c * x[at + i];
}

// e . u
export function traced(table, k, u) {
  const { e, d } = table;
  const at = table.place[k] * d;
  let total = 0;
  for (let i = 0; i < d; i++) total += e[at + i] * u[i];
  return total;
}

// out += c e
export function addTrace(table, k, c, out) {
  const { e, d } = table;
  const at = table.place[k] * d;
  for (let i = 0; i < d; i++) out[i] += c * e[at + i];
}

// out += scale (a e - b x)
export function addTraceLessFeatures(table, k, scale, a, b, out) {
  if (!table.traced) return addFeatures(table, k, scale * (a - b), out);
  addTrace(table, k, scale * a, out);
  addFeatures(table, k, -scale * b, out);
}

// out += c discount x_next
export function addNextFeatures(table, k, c, out) {
  const { x, d } = table;
  const at = table.nextRow[k] * d;
  const scaled = c * table.discount[k];
  for (let i = 0; i < d; i++) out[i] += scaled * x[at + i];
}

// out += c y
export function addGradient(table, k, c, out) {
  const { y, d } = table;
  const at = k * d;
  for (let i = 0; i < d; i++) out[i] += c * y[at + i];
}

// Four rows at once: four sums do not wait for each other, and `out` is read and written once for four additions.
// Every sum still has its terms in the same order, so it is the same to the last bit.

// sums[0..3] = rows of M at a, b, c, e times v
function fourDots(M, a, b, c, e, v, sums) {
  let ofA = 0, ofB = 0, ofC = 0, ofE = 0;
  for (let i = 0; i < v.length; i++) {
    const vi = v[i];
    ofA += M[a + i] * vi;
    ofB += M[b + i] * vi;
    ofC += M[c + i] * vi;
    ofE += M[e + i] * vi;
  }
  sums[0] = ofA;
  sums[1] = ofB;
  sums[2] = ofC;
  sums[3] = ofE;
}

// out += factors[0..3] times the rows of M at a, b, c, e, one after the other
function addFour(M, a, b, c, e, factors, out) {
  const fa = factors[0], fb = factors[1], fc = factors[2], fe = factors[3];
  for (let i = 0; i < out.length; i++) out[i] = out[i] + fa * M[a + i] + fb * M[b + i] + fc * M[c + i] + fe * M[e + i];
}

const four = new Float64Array(4);

// out = A theta + b, averaged over a batch; with `reward` all zero out = A theta
export function batchTdUpdate(table, batch, theta, out, reward = table.reward) {
  const { e: left, y, d, place, rho } = table;
  const scale = 1 / batch.length;
  out.fill(0);
  let j = 0;
  for (; j + 4 <= batch.length; j += 4) {
    const a = batch[j], b = batch[j + 1], c = batch[j + 2], e = batch[j + 3];
    fourDots(y, a * d, b * d, c * d, e * d, theta, four);
    four[0] = scale * rho[a] * (reward[a] + four[0]);
    four[1] = scale * rho[b] * (reward[b] + four[1]);
    four[2] = scale * rho[c] * (reward[c] + four[2]);
    four[3] = scale * rho[e] * (reward[e] + four[3]);
    addFour(left, place[a] * d, place[b] * d, place[c] * d, place[e] * d, four, out);
  }
  for (; j < batch.length; j++) {
    const k = batch[j];
    addTrace(table, k, scale * rho[k] * (reward[k] + difference(table, k, theta)), out);
  }
}

// out = A'u, averaged over a batch; returns b . u
export function batchTransposeApply(table, batch, u, out) {
  const { e: left, y, d, place, rho, reward } = table;
  const scale = 1 / batch.length;
  let total = 0, j = 0;
  out.fill(0);
  for (; j + 4 <= batch.length; j += 4) {
    const a = batch[j], b = batch[j + 1], c = batch[j + 2], e = batch[j + 3];
    fourDots(left, place[a] * d, place[b] * d, place[c] * d, place[e] * d, u, four);
    four[0] *= scale * rho[a];
    four[1] *= scale * rho[b];
    four[2] *= scale * rho[c];
    four[3] *= scale * rho[e];
    addFour(y, a * d, b * d, c * d, e * d, four, out);
    total = total + reward[a] * four[0] + reward[b] * four[1] + reward[c] * four[2] + reward[e] * four[3];
  }
  for (; j < batch.length; j++) {
    const k = batch[j], factor = scale * rho[k] * traced(table, k, u);
    addGradient(table, k, factor, out);
    total += reward[k] * factor;
  }
  return total;
}

// A += rho e y' and b += rho r e, for a matrix kept row by row
export function addToSums(table, k, A, b) {
  const { e, y, d } = table;
  const at = table.place[k] * d;
  for (let i = 0; i < d; i++) {
    const scale = table.rho[k] * e[at + i];
    if (scale !== 0) for (let j = 0; j < d; j++) A[i * d + j] += scale * y[k * d + j];
  }
  addTrace(table, k, table.rho[k] * table.reward[k], b);
}

export function dot(u, v) {
  let total = 0;
  for (let i = 0; i < u.length; i++) total += u[i] * v[i];
  return total;
}

// out *= c
export function scaleBy(out, c) {
  for (let i = 0; i < out.length; i++) out[i] *= c;
}

// out += c v
export function addScaled(out, c, v) {
  for (let i = 0; i < out.length; i++) out[i] += c * v[i];
}

// out = M v
export function matrixApply(M, v, out) {
  const d = v.length;
  for (let i = 0; i < d; i++) {
    let total = 0;
    for (let j = 0; j < d; j++) total += M[i * d + j] * v[j];
    out[i] = total;
  }
}

// out = M'u
export function matrixTransposeApply(M, u, out) {
  const d = u.length;
  out.fill(0);
  for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) out[j] += u[i] * M[i * d + j];
}
