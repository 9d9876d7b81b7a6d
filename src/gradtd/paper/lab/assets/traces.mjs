// Eligibility traces: e = discount lam rho e + x along an episode, and e = x where one begins.
//
// With traces no two steps are alike, so every step becomes a kind of its own: its row of `e` is its trace, and the rest
// is copied from its kind. A trace depends on its own episode and not on weights, so one pass makes all of them.

// The table and the stream of a run with traces; for lam = 0 those that were given.
export function withTraces(table, stream, lam) {
  if (!(lam > 0)) return { table, stream };
  const kind = stream.kind, steps = kind.length;
  const own = new Int32Array(steps);
  for (let t = 0; t < steps; t++) own[t] = t;
  const made = {
    ...table,
    row: picked(table.row, kind, new Int32Array(steps)),
    nextRow: picked(table.nextRow, kind, new Int32Array(steps)),
    reward: picked(table.reward, kind, new Float64Array(steps)),
    rho: picked(table.rho, kind, new Float64Array(steps)),
    discount: picked(table.discount, kind, new Float64Array(steps)),
    y: rowsOf(table.y, kind, table.d),
    nothing: new Float64Array(steps),
    e: tracesOf(table, stream, lam),
    place: own,
    traced: true,
  };
  return { table: made, stream: { kind: own, episode: stream.episode } };
}

function picked(values, kind, out) {
  for (let t = 0; t < kind.length; t++) out[t] = values[kind[t]];
  return out;
}

function rowsOf(M, rows, d) {
  const out = new Float64Array(rows.length * d);
  for (let t = 0; t < rows.length; t++) for (let i = 0; i < d; i++) out[t * d + i] = M[rows[t] * d + i];
  return out;
}

function tracesOf(table, { kind, episode }, lam) {
  const { x, d, row, rho, discount } = table;
  const e = new Float64Array(kind.length * d);
  for (let t = 0; t < kind.length; t++) {
    const before = kind[t - 1], goesOn = t > 0 && episode[t] === episode[t - 1];
    const taken = goesOn ? discount[before] * (lam * rho[before]) : 0;
    const here = row[kind[t]] * d, at = t * d;
    for (let i = 0; i < d; i++) e[at + i] = taken === 0 ? x[here + i] : x[here + i] + taken * e[at - d + i];
  }
  return e;
}
