// From weights to what is drawn: metrics of every run, their mean and band.

// |F theta + f| for each snapshot of a run; `map` is one of the problem's metrics.
export function measured(map, thetas, d) {
  const { F, f } = map;
  const out = new Float64Array(thetas.length / d);
  for (let at = 0; at < out.length; at++) {
    let square = 0;
    for (let m = 0; m < F.length; m++) {
      let value = f[m];
      for (let i = 0; i < d; i++) value += F[m][i] * thetas[at * d + i];
      square += value * value;
    }
    out[at] = Math.sqrt(square);
  }
  return out;
}

// Mean, middle 80 % and standard error at each snapshot, over the runs measured so far.
export function summarised(values) {
  const runs = values.length, points = values[0].length;
  const out = { mean: [], low: [], high: [], error: [] };
  const column = new Float64Array(runs);
  for (let at = 0; at < points; at++) {
    let total = 0;
    for (let r = 0; r < runs; r++) total += column[r] = values[r][at];
    const mean = total / runs;
    const spread = column.reduce((sum, x) => sum + (x - mean) ** 2, 0);
    column.sort();
    out.mean.push(mean);
    out.low.push(quantile(column, 0.1));
    out.high.push(quantile(column, 0.9));
    out.error.push(runs > 1 ? Math.sqrt(spread / (runs - 1) / runs) : NaN);
  }
  return out;
}

// Linear between order statistics, as NumPy's default.
export function quantile(sorted, share) {
  const place = share * (sorted.length - 1), below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

export function median(values) {
  return values.length ? quantile(Float64Array.from(values).sort(), 0.5) : NaN;
}
