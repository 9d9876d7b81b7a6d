// The exact mean-square curve of a rule, for fresh independent draws from the long-run law of the problem's steps.
//
//   x <- x - alpha g(x), g affine:   v = E (x - x*),   M = E (x - x*)(x - x*)'
//   v' = v - alpha B v,              M' = M - alpha (B M + M B') + alpha^2 E[g g']
//
// E[g g'] is linear in (M, v, 1), so one step is a matrix. It is formed once per problem and rule, in the directions in
// which weights move (`span`), where A is regular; gradtd.theory holds the same, and more, in Python. With traces the first
// factor of a step is e, of which only the mean and E[e e'] in each state matter (tracelaw.mjs).
import {
  apply,
  identity,
  pack,
  packedSize,
  positiveDefinite,
  power,
  product,
  solve,
  topEigenvalue,
  transposed,
  unpack,
} from "./dense.mjs";

// The law of one step in the coordinates of the span: phi, d = rho (gamma phi' - phi), e = the TD error at theta*.
export function lawOf(problem, table) {
  const { span, p } = problem;
  const r = span.length, d = table.d;
  const along = (vector, at = 0) => span.map((row) => row.reduce((t, s, i) => t + s * vector[at + i], 0));
  const phi = problem.features.map((row) => along(row));
  const star = along(problem.theta_star);
  const steps = [];
  for (let k = 0; k < p.length; k++) {
    if (!(p[k] > 0)) continue;
    const here = phi[table.row[k]], after = phi[table.nextRow[k]];
    const y = here.map((x, i) => table.discount[k] * after[i] - x);
    const rho = table.rho[k], next = after.map((x) => rho * table.discount[k] * x);
    const dk = y.map((x) => rho * x);
    const e = dk.reduce((t, x, i) => t + x * star[i], rho * table.reward[k]);
    steps.push({ p: p[k], row: table.row[k], phi: here, y, d: dk, next, rho, e });
  }
  const start = along(problem.theta0).map((x, i) => x - star[i]);
  return { r, d, steps, start, span, star: problem.theta_star, ...leftFactors(problem, phi, along) };
}

// E[e | s], E[e e' | s] and lam; e is phi without traces. `infinite` where the second moment does not exist.
function leftFactors({ left, span }, phi, along) {
  const outer = (u, v) => u.flatMap((x) => v.map((y) => x * y));
  if (!left) return { lam: 0, infinite: false, means: phi, squares: phi.map((row) => outer(row, row)) };
  const means = left.mean.map((row) => along(row)), { square, lam } = left, d = span[0].length;
  if (!square) return { lam, infinite: true, means, squares: means.map((row) => outer(row, row)) };
  const projected = (W) => span.flatMap((u) => {
    const row = Array.from({ length: d }, (_, j) => u.reduce((t, x, i) => t + x * W[i * d + j], 0));
    return span.map((v) => v.reduce((t, x, j) => t + x * row[j], 0));
  });
  return { lam, infinite: false, means, squares: square.map(projected) };
}

// ---- Impression GTD, Expected GTD and mini-batch TD: sums over the steps out of each state.

function rowSums(law) {
  const { r } = law;
  const A = new Float64Array(r * r);
  const rows = law.squares.map((W) => ({ W, Y: new Float64Array(r * r), ed: new Float64Array(r), e2: 0 }));
  for (const { p, row, d, e } of law.steps) {
    const sums = rows[row], mean = law.means[row];
    sums.e2 += p * e * e;
    for (let i = 0; i < r; i++) {
      sums.ed[i] += p * e * d[i];
      for (let j = 0; j < r; j++) {
        sums.Y[i * r + j] += p * d[i] * d[j];
        A[i * r + j] += p * mean[i] * d[j];
      }
    }
  }
  return { A, rows };
}

// E[(A theta + b)(A theta + b)'] over a batch whose mean has c times the variance of one step
function inner({ A, rows }, r, c, M, v, one) {
  const out = product(product(A, M, r), transposed(A, r), r).map((x) => (1 - c) * x);
  for (const { W, Y, ed, e2 } of rows) {
    let each = one * e2;
    for (let i = 0; i < r * r; i++) each += Y[i] * M[i];
    for (let i = 0; i < r; i++) each += 2 * ed[i] * v[i];
    for (let i = 0; i < r * r; i++) out[i] += c * each * W[i];
  }
  return out;
}

// E[A' G A] over such a batch
function outer({ A, rows }, r, c, G) {
  const out = product(product(transposed(A, r), G, r), A, r).map((x) => (1 - c) * x);
  for (const { W, Y } of rows) {
    let form = 0;
    for (let i = 0; i < r * r; i++) form += W[i] * G[i];
    for (let i = 0; i < r * r; i++) out[i] += c * form * Y[i];
  }
  return out;
}

// E[g g'] as columns: a map of (M, v, 1) asked for every unit of it.
function columnsOf(second, n) {
  const N = packedSize(n), size = N + n + 1;
  const out = new Float64Array(N * size);
  for (let c = 0; c < size; c++) {
    const unit = new Float64Array(size);
    unit[c] = 1;
    const column = pack(second(unpack(unit, n), unit.subarray(N, N + n), unit[N + n]), n);
    for (let i = 0; i < N; i++) out[i * size + c] = column[i];
  }
  return out;
}

function batchMoments(law, c1, c2) {
  const sums = rowSums(law), { r } = law;
  const drift = product(transposed(sums.A, r), sums.A, r);
  const second = columnsOf((M, v, one) => outer(sums, r, c1, inner(sums, r, c2, M, v, one)), r);
  return { n: r, drift, second };
}

function minibatchMoments(law, c) {
  const sums = rowSums(law), { r } = law;
  return { n: r, drift: sums.A.map((x) => -x), second: columnsOf((M, v, one) => inner(sums, r, c, M, v, one), r) };
}

// ---- Rules with a second vector: x = (theta, w), and one step does x += alpha (G x + g) with these blocks.

const BLOCKS = {
  gtd2: ({ phi, d, e }, eta) => ({
    terms: [[negative(d), null, null, phi], [null, scaled(eta, phi), d, negative(phi)]],
    rest: [null, scaled(eta * e, phi)],
  }),
  tdc: ({ phi, d, next, e }, eta) => ({
    terms: [[phi, scaled(eta, phi), d, null], [negative(next), scaled(-eta, phi), null, phi]],
    rest: [scaled(e, phi), scaled(eta * e, phi)],
  }),
  htd: ({ phi, d, y, rho, e }, eta) => ({
    terms: [[phi, scaled(eta, phi), d, null], [scaled(1 - rho, y), scaled(eta, y), null, phi]],
    rest: [scaled(e, phi), scaled(eta * e, phi)],
  }),
};
BLOCKS.tdrc = BLOCKS.tdc;

const scaled = (c, v) => v.map((x) => c * x);
const negative = (v) => scaled(-1, v);

// A term is (a; b)(f; h)' as four vectors, null for zeros: G is their sum, less eta w where the rule is TDRC.
function stepMatrix(step, rule, eta, r) {
  const { terms, rest } = BLOCKS[rule](step, eta);
  const n = 2 * r, G = new Float64Array(n * n), g = new Float64Array(n);
  const place = (left, right) => {
    left.forEach((l, a) => right.forEach((q, b) => {
      if (l && q) for (let i = 0; i < r; i++) for (let j = 0; j < r; j++) G[(a * r + i) * n + b * r + j] += l[i] * q[j];
    }));
  };
  for (const [a, b, f, h] of terms) place([a, b], [f, h]);
  rest.forEach((part, a) => part && part.forEach((x, i) => (g[a * r + i] = x)));
  if (rule === "tdrc") for (let i = r; i < n; i++) G[i * n + i] -= eta;
  return { G, g };
}

function jointMoments(law, rule, eta) {
  const { r } = law, n = 2 * r, N = packedSize(n), size = N + n + 1;
  const second = new Float64Array(N * size), drift = new Float64Array(n * n);
  for (const step of law.steps) {
    const { G, g } = stepMatrix(step, rule, eta, r);
    for (let i = 0; i < n * n; i++) drift[i] -= step.p * G[i];
    let at = 0;
    for (let i = 0; i < n; i++)
      for (let j = i; j < n; j++) addOutcome(second, size * at++, step.p, G, g, i, j, n);
  }
  return { n, drift, second };
}

// Entry (i, j) of p (G x + g)(G x + g)', as a row over (M, v, 1)
function addOutcome(second, row, p, G, g, i, j, n) {
  let at = row;
  for (let k = 0; k < n; k++) {
    const a = p * G[i * n + k], b = p * G[j * n + k];
    if (a === 0 && b === 0) {
      at += n - k;
      continue;
    }
    second[at++] += a * G[j * n + k];
    for (let l = k + 1; l < n; l++) second[at++] += a * G[j * n + l] + b * G[i * n + l];
  }
  for (let k = 0; k < n; k++) second[at++] += p * (g[i] * G[j * n + k] + g[j] * G[i * n + k]);
  second[at] += p * g[i] * g[j];
}

// ---- What the page asks.

// The moments of a setting's rule, or null where no exact curve is known: for traces without a variance, and for rules
// that hold the trace and the features of one step together.
export function momentsOf(law, setting) {
  const { algorithm, eta } = setting, c = 1 / setting.batch_size;
  if (algorithm !== "expected_gtd" && law.infinite) return null;
  if (algorithm === "impression_gtd") return batchMoments(law, c, c);
  if (algorithm === "expected_gtd") return batchMoments(law, 0, 0);
  if (algorithm === "minibatch_td") return minibatchMoments(law, c);
  if (algorithm === "td") return minibatchMoments(law, 1);
  return algorithm in BLOCKS && law.lam === 0 ? jointMoments(law, algorithm, eta) : null;
}

// U(M) = B M + M B' as a matrix over packed M
function driftMatrix({ n, drift }) {
  const N = packedSize(n), U = new Float64Array(N * N);
  const place = (i, j) => (i <= j ? (i * (2 * n - i + 1)) / 2 + j - i : place(j, i));
  for (let i = 0; i < n; i++)
    for (let j = i; j < n; j++)
      for (let k = 0; k < n; k++) {
        U[place(i, j) * N + place(k, j)] += drift[i * n + k];
        U[place(i, j) * N + place(i, k)] += drift[j * n + k];
      }
  return U;
}

// alpha*: the mean square stays bounded exactly for step-sizes below it; 0 where it does for none.
export function stabilityThreshold(moments) {
  const { n, second } = moments;
  const N = packedSize(n), size = N + n + 1;
  const U = driftMatrix(moments), unit = pack(identity(n), n);
  const settled = solve(U, unit, N);
  if (!settled || !positiveDefinite(unpack(settled, n), n)) return 0;
  const V = new Float64Array(N * N);
  for (let i = 0; i < N; i++) V.set(second.subarray(i * size, i * size + N), i * N);
  return 1 / topEigenvalue(solve(U, V, N), unit, N);
}

// One step of (M, v, 1) as a matrix.
function stepOf(moments, alpha) {
  const { n, drift, second } = moments;
  const N = packedSize(n), size = N + n + 1;
  const U = driftMatrix(moments), T = new Float64Array(size * size);
  for (let i = 0; i < N * size; i++) T[i] = alpha * alpha * second[i];
  for (let i = 0; i < N; i++) for (let j = 0; j < N; j++) T[i * size + j] += (i === j) - alpha * U[i * N + j];
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) T[(N + i) * size + N + j] = (i === j) - alpha * drift[i * n + j];
  T[size * size - 1] = 1;
  return T;
}

// sqrt E |F theta + f|^2 after 0, gap, 2 gap, ... updates, for each metric; Infinity where it has left the scale.
export function exactCurve(law, moments, alpha, gap, count, metrics) {
  const { n } = moments, N = packedSize(n), size = N + n + 1;
  const reads = Object.entries(metrics).map(([name, map]) => [name, readout(law, map, n)]);
  const start = [...law.start, ...new Array(n - law.r).fill(0)];
  let state = new Float64Array(size);
  state.set(pack(start.flatMap((a) => start.map((b) => a * b)), n));
  state.set(start, N);
  state[size - 1] = 1;
  const T = power(stepOf(moments, alpha), gap, size);
  const out = Object.fromEntries(reads.map(([name]) => [name, []]));
  for (let i = 0; i <= count; i++) {
    if (i > 0) state = apply(T, state, size);
    for (const [name, row] of reads) {
      const square = row.reduce((total, x, k) => (x === 0 ? total : total + x * state[k]), 0);
      out[name].push(Number.isNaN(square) ? Infinity : Math.sqrt(Math.max(square, 0)));
    }
  }
  return out;
}

// |F theta + f|^2 as a row over (M, v, 1), with theta = theta* + span' x
function readout(law, { F, f }, n) {
  const { r, span, star } = law;
  const along = F.map((row) => span.map((s) => s.reduce((t, x, i) => t + x * row[i], 0)));
  const rest = F.map((row, m) => row.reduce((t, x, i) => t + x * star[i], f[m]));
  const W = new Float64Array(n * n), slope = new Float64Array(n);
  let offset = 0;
  along.forEach((row, m) => {
    offset += rest[m] ** 2;
    for (let i = 0; i < r; i++) {
      slope[i] += 2 * rest[m] * row[i];
      for (let j = 0; j < r; j++) W[i * n + j] += row[i] * row[j] * (i === j ? 1 : 2);
    }
  });
  return [...pack(W, n), ...slope, offset];
}
