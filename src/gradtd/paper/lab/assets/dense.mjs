// Small dense linear algebra for the theory: matrices are Float64Arrays, row by row, with their size beside them.

export function product(A, B, n) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++)
    for (let k = 0; k < n; k++) {
      const a = A[i * n + k];
      if (a !== 0) for (let j = 0; j < n; j++) out[i * n + j] += a * B[k * n + j];
    }
  return out;
}

export function apply(A, v, n) {
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let total = 0;
    for (let j = 0; j < n; j++) total += A[i * n + j] * v[j];
    out[i] = total;
  }
  return out;
}

export function transposed(A, n) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) out[j * n + i] = A[i * n + j];
  return out;
}

// A to a whole power, by repeated squaring.
export function power(A, exponent, n) {
  let out = null, square = A;
  for (let e = exponent; e > 0; e = Math.floor(e / 2)) {
    if (e % 2 === 1) out = out ? product(out, square, n) : square;
    if (e > 1) square = product(square, square, n);
  }
  return out || identity(n);
}

export function identity(n) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) out[i * n + i] = 1;
  return out;
}

// The solution of A X = B with as many columns in B as in A, or null where A is singular.
export function solve(A, B, n) {
  const left = A.slice(), X = B.slice();
  const columns = B.length / n;
  const largest = left.reduce((most, a) => Math.max(most, Math.abs(a)), 0);
  for (let c = 0; c < n; c++) {
    let best = c;
    for (let i = c + 1; i < n; i++) if (Math.abs(left[i * n + c]) > Math.abs(left[best * n + c])) best = i;
    if (Math.abs(left[best * n + c]) <= 1e-14 * largest) return null;
    swapRows(left, c, best, n);
    swapRows(X, c, best, columns);
    for (let i = c + 1; i < n; i++) {
      const factor = left[i * n + c] / left[c * n + c];
      if (factor === 0) continue;
      for (let j = c; j < n; j++) left[i * n + j] -= factor * left[c * n + j];
      for (let j = 0; j < columns; j++) X[i * columns + j] -= factor * X[c * columns + j];
    }
  }
  for (let i = n - 1; i >= 0; i--)
    for (let j = 0; j < columns; j++) {
      let total = X[i * columns + j];
      for (let k = i + 1; k < n; k++) total -= left[i * n + k] * X[k * columns + j];
      X[i * columns + j] = total / left[i * n + i];
    }
  return X;
}

function swapRows(A, i, k, columns) {
  if (i === k) return;
  for (let j = 0; j < columns; j++) [A[i * columns + j], A[k * columns + j]] = [A[k * columns + j], A[i * columns + j]];
}

// Whether a symmetric matrix is positive definite: whether Cholesky's method succeeds.
export function positiveDefinite(A, n) {
  const L = A.slice();
  for (let j = 0; j < n; j++) {
    for (let k = 0; k < j; k++) L[j * n + j] -= L[j * n + k] ** 2;
    if (!(L[j * n + j] > 0)) return false;
    L[j * n + j] = Math.sqrt(L[j * n + j]);
    for (let i = j + 1; i < n; i++) {
      for (let k = 0; k < j; k++) L[i * n + j] -= L[i * n + k] * L[j * n + k];
      L[i * n + j] /= L[j * n + j];
    }
  }
  return true;
}

// The largest eigenvalue of a matrix that has one with a positive vector, as maps of positive matrices do.
export function topEigenvalue(A, start, n) {
  let many = A;
  for (let i = 0; i < 8; i++) {
    many = product(many, many, n);
    const size = Math.hypot(...many);
    for (let k = 0; k < many.length; k++) many[k] /= size;
  }
  let v = Float64Array.from(start), value = 0;
  for (let i = 0; i < 60; i++) {
    v = apply(many, v, n);
    const size = Math.hypot(...v);
    if (!(size > 0)) return 0;
    v = v.map((x) => x / size);
    const moved = apply(A, v, n);
    const next = v.reduce((total, x, k) => total + x * moved[k], 0);
    if (Math.abs(next - value) <= 1e-13 * Math.abs(next)) return next;
    value = next;
  }
  return value;
}

// ---- Symmetric matrices as vectors: the upper triangle, row by row.

export const packedSize = (n) => (n * (n + 1)) / 2;

export function pack(M, n) {
  const out = new Float64Array(packedSize(n));
  let at = 0;
  for (let i = 0; i < n; i++) for (let j = i; j < n; j++) out[at++] = M[i * n + j];
  return out;
}

export function unpack(z, n) {
  const out = new Float64Array(n * n);
  let at = 0;
  for (let i = 0; i < n; i++)
    for (let j = i; j < n; j++) {
      out[i * n + j] = z[at];
      out[j * n + i] = z[at++];
    }
  return out;
}
