// The law of traces on a problem: their mean and second moment in every state, and the solution that belongs to them.
//
//   m(s') = d(s') phi(s') + sum_s K1(s, s') m(s),                  m(s) = d(s) E[e | s]
//   W(s') = d(s') phi phi' + sum_s K2(s, s') W(s) + cross terms,   W(s) = d(s) E[e e' | s]
//
// with Kj(s, s') = E[(gamma lam rho)^j; s to s'] / d(s), as gradtd.problems.exact has it. W exists below `finite_below`.
import { identity, solve } from "./dense.mjs";

// A problem as traces with this lam change it: its TD solution, its metrics, and `left`, the law of e in each state.
export function problemWithTraces(problem, table, lam) {
  if (!(lam > 0)) return problem;
  const n = problem.features.length, d = table.d;
  const law = chains(problem, table, lam, n);
  const mean = solve(law.minusK1, scaledRows(problem.features, law.visits), n);
  const { A, b } = equations(problem, table, mean, law.visits, d);
  const star = solved(problem.span, A, b, d);
  const infinite = problem.finite_below !== null && lam >= problem.finite_below;
  const square = infinite ? null : secondMoments(problem.features, law, mean, n, d);
  const { root } = problem;
  const metrics = {
    rmsve: problem.metrics.rmsve,
    rmspbe: { F: root.map((row) => A[0].map((_, j) => dotRows(row, A, j))), f: root.map((row) => along(row, b)) },
    distance: { F: problem.span, f: problem.span.map((row) => -along(row, star)) },
  };
  return { ...problem, theta_star: star, metrics, left: { mean: perVisit(mean, law.visits, d), square, lam } };
}

const along = (u, v) => u.reduce((total, x, i) => total + x * v[i], 0);
const dotRows = (row, A, j) => row.reduce((total, x, i) => total + x * A[i][j], 0);

// How often each state is visited, I - K1' and I - K2', and what of a trace goes from state to state.
function chains({ p }, table, lam, n) {
  const visits = new Float64Array(n), carried = new Float64Array(n * n);
  const minusK1 = identity(n), minusK2 = identity(n);
  for (let k = 0; k < p.length; k++) visits[table.row[k]] += p[k];
  for (let k = 0; k < p.length; k++) {
    if (!(p[k] > 0)) continue;
    const from = table.row[k], to = table.nextRow[k], c = lam * table.discount[k] * table.rho[k];
    carried[to * n + from] += (p[k] / visits[from]) * c;
    minusK1[to * n + from] -= (p[k] / visits[from]) * c;
    minusK2[to * n + from] -= (p[k] / visits[from]) * c * c;
  }
  return { visits, carried, minusK1, minusK2 };
}

function scaledRows(rows, factors) {
  return Float64Array.from(rows.flatMap((row, s) => row.map((x) => factors[s] * x)));
}

// A = E[rho e y'] and b = E[rho r e]
function equations({ p }, table, mean, visits, d) {
  const A = Array.from({ length: d }, () => new Array(d).fill(0)), b = new Array(d).fill(0);
  for (let k = 0; k < p.length; k++) {
    if (!(p[k] > 0)) continue;
    const s = table.row[k], weight = (p[k] / visits[s]) * table.rho[k];
    for (let i = 0; i < d; i++) {
      b[i] += weight * table.reward[k] * mean[s * d + i];
      for (let j = 0; j < d; j++) A[i][j] += weight * mean[s * d + i] * table.y[k * d + j];
    }
  }
  return { A, b };
}

// The solution of A theta + b = 0 in the directions in which weights move
function solved(span, A, b, d) {
  const r = span.length;
  const inside = Float64Array.from(span.flatMap((u) => span.map((v) => along(u, A.map((row) => along(row, v))))));
  const x = solve(inside, Float64Array.from(span, (u) => -along(u, b)), r);
  return Array.from({ length: d }, (_, i) => span.reduce((total, u, k) => total + u[i] * x[k], 0));
}

function secondMoments(features, { visits, carried, minusK2 }, mean, n, d) {
  const start = new Float64Array(n * d * d);
  for (let s = 0; s < n; s++) {
    const taken = new Float64Array(d), phi = features[s];
    for (let from = 0; from < n; from++)
      for (let i = 0; i < d; i++) taken[i] += carried[s * n + from] * mean[from * d + i];
    for (let i = 0; i < d; i++)
      for (let j = 0; j < d; j++)
        start[(s * d + i) * d + j] = visits[s] * phi[i] * phi[j] + taken[i] * phi[j] + phi[i] * taken[j];
  }
  return perVisit(solve(minusK2, start, n), visits, d * d);
}

// One array per state, given that one is there; nothing but zeros where one never is.
function perVisit(values, visits, size) {
  return Array.from(visits, (visit, s) =>
    Array.from({ length: size }, (_, i) => (visit > 0 ? values[s * size + i] / visit : 0)),
  );
}
