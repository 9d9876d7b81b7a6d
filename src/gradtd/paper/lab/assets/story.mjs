// What the page says about what it shows, in sentences.
import { number } from "./chart.mjs";
import { ALGORITHMS, settingOf } from "./settings.mjs";

export const METRIC_WORDS = {
  rmsve: "error of the values (RMSVE)",
  rmspbe: "projected Bellman error (RMSPBE)",
  distance: "distance to the TD solution",
};

// A setting in a few words: alpha 5, m 32
export function inWords(curve) {
  const { algorithm, ...rest } = settingOf(curve);
  const words = [];
  if (rest.alpha !== undefined) words.push(`alpha ${number(rest.alpha)}`);
  if (rest.eta !== undefined && rest.eta !== 1) words.push(`eta ${number(rest.eta)}`);
  if (rest.lam) words.push(`lambda ${number(rest.lam)}`);
  if (rest.batch_size !== undefined) words.push(`m ${rest.batch_size}`);
  if (rest.split !== undefined && rest.split !== "odd-even") words.push(`split ${rest.split}`);
  return words.join(", ");
}

export function ending(result, metric) {
  const { mean, error } = result.metrics[metric];
  const last = mean.length - 1;
  const spread = Number.isFinite(error[last]) ? ` \u00b1 ${number(error[last], 2)}` : "";
  return `${number(mean[last])}${spread}`;
}

// How the active curve ended, against LSTD on the same data.
export function resultSentence(curve, result, floor, metric) {
  const name = ALGORITHMS[curve.algorithm].label;
  if (result.idle === result.runs)
    return (
      `${name} has not begun to learn: its buffers never contained more than a batch of ${curve.batch_size}. ` +
      "Use a smaller batch or more steps."
    );
  if (result.diverged)
    return (
      `${name}: ${result.diverged} of ${result.done} runs diverged. ` +
      "Their curves leave through the top of the picture."
    );
  const last = result.metrics[metric].mean.length - 1;
  const own = result.metrics[metric].mean[last];
  let text = `${name} ends with an error of ${ending(result, metric)}, the mean of ${result.done} runs`;
  if (floor && curve.algorithm !== "lstd") {
    const best = floor.metrics[metric].mean[last];
    if (own > 1e-12 && best > 1e-12) text += `. LSTD, which uses every step at once, ends with ${number(best)}`;
  }
  return text + ".";
}

// Whether the step-size is stable, and by how far.
export function stabilitySentence(curve, theory, result) {
  const { label, why } = ALGORITHMS[curve.algorithm];
  if (curve.algorithm === "impression_gtd_auto" && result && result.alpha > 0)
    return `It chose alpha = ${number(result.alpha)} for its last update (median over runs).`;
  if (!theory) return why ? "" : "\u2026";
  const limit = theory.threshold;
  if (limit === 0)
    return `The mean update of ${label} is unstable on this problem: it diverges with every step-size, however small.`;
  if (limit === null) return "";
  const part = curve.alpha / limit;
  const edge = `alpha* = ${number(limit)}`;
  if (part >= 1)
    return (
      `Unstable: alpha is ${number(part, 2)} times the threshold ${edge}, so the mean square grows without bound, ` +
      "even if a typical run does not show it."
    );
  return (
    `Stable: alpha is ${number(100 * part, 2)} % of the threshold ${edge}, ` +
    "above which the mean square would grow without bound."
  );
}

// `finiteBelow` is the lambda from which on the problem's traces have no variance, or null where they always have one.
export function theorySentence(curve, finiteBelow) {
  const { label, exact, single, why } = ALGORITHMS[curve.algorithm];
  if (!exact) return `There is no dashed curve for ${label}: ${why}.`;
  if (curve.lam > 0 && single)
    return (
      `There is no dashed curve and no alpha* for ${label} with traces: its update contains both the trace and the ` +
      "features of a step, and the exact theory knows only the law of the trace. Set lambda to 0 to see both."
    );
  if (finiteBelow !== null && curve.lam >= finiteBelow && curve.algorithm !== "expected_gtd")
    return (
      `There is no dashed curve and no alpha*: from lambda = ${number(finiteBelow)} on the traces have an infinite ` +
      "variance on this problem, so the mean square is infinite with every step-size. Runs converge slowly or not at all."
    );
  return (
    `Dashed: the exact root mean square of ${label} by theory, ${exact}. ` +
    "If the runs stay above it, the gap comes from the finite amount of data."
  );
}
