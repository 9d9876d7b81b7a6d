// The Web Worker: runs settings in slices of time, so that a moved slider is answered at once.
import { runOnce } from "./loop.mjs";
import { SNAPSHOTS, settingKey, snapshotSteps } from "./settings.mjs";
import { prepared, sample } from "./stream.mjs";
import { measured, median, summarised } from "./summary.mjs";
import { problemWithTraces } from "./tracelaw.mjs";
import { exactCurve, lawOf, momentsOf, stabilityThreshold } from "./theory.mjs";

const SLICE = 40; // milliseconds of work between two looks at the messages
const SWEEP_RUNS = 10;

const problems = {}; // what the page sent, and what was made of it once
const streams = new Map(), finished = new Map(), momentsKept = new Map(), lawsKept = new Map();
const latest = { show: -1, sweep: -1 };

self.onmessage = ({ data }) => {
  if (data.type === "tables") {
    for (const problem of data.problems) {
      problems[problem.name] = { problem, table: prepared(problem) };
    }
  } else if (data.type === "weights") {
    self.postMessage({ type: "weights", request: data.request, runs: weightsOf(data.shared, data.setting) });
  } else {
    latest[data.type] = data.request;
    (data.type === "show" ? show : sweep)(data);
  }
};

// A problem with this lambda: its metrics and the law of its steps.
function problemAt(name, lam = 0) {
  const key = [name, lam].join();
  if (!lawsKept.has(key)) {
    if (lawsKept.size > 200) lawsKept.clear();
    const { table } = problems[name], problem = problemWithTraces(problems[name].problem, table, lam);
    lawsKept.set(key, { problem, table, law: lawOf(problem, table) });
  }
  return lawsKept.get(key);
}

const pause = () => new Promise((resume) => setTimeout(resume, 0));

// The data of a run: the same for every algorithm, so they are kept.
function streamOf({ problem, steps, seed }, run) {
  const key = [problem, steps, seed, run].join();
  if (!streams.has(key)) {
    if (streams.size > 400) streams.clear();
    streams.set(key, sample(problems[problem].table, steps, seed, run));
  }
  return streams.get(key);
}

function oneRun(shared, setting, run) {
  const { table } = problems[shared.problem];
  return runOnce(table, streamOf(shared, run), setting, shared.seed, run, snapshotSteps(shared.steps));
}

function weightsOf(shared, setting) {
  return Array.from({ length: shared.runs }, (_, run) => oneRun(shared, setting, run).thetas);
}

// Answer a request: the curve that is being changed first, then LSTD's, its theory, and the others.
async function show(data) {
  const stale = () => latest.show !== data.request;
  const [active, ...others] = data.curves;
  await curve(data, active, stale);
  await curve(data, { algorithm: "lstd", lam: active.lam }, stale);
  if (!stale()) theory(data, active);
  for (const setting of others) await curve(data, setting, stale);
  if (!stale()) self.postMessage({ type: "done", request: data.request });
}

async function curve({ request, shared }, setting, stale) {
  const key = settingKey(shared, setting);
  if (stale()) return;
  if (finished.has(key)) {
    self.postMessage({ ...finished.get(key), request });
    return;
  }
  const { problem, table } = problemAt(shared.problem, setting.lam);
  const values = Object.fromEntries(Object.keys(problem.metrics).map((name) => [name, []]));
  const found = [];
  let begun = performance.now();
  for (let run = 0; run < shared.runs; run++) {
    const one = oneRun(shared, setting, run);
    for (const name in values) values[name].push(measured(problem.metrics[name], one.thetas, table.d));
    found.push({ alpha: one.alpha, divergedAt: one.divergedAt, firstUpdate: one.firstUpdate });
    if (performance.now() - begun < SLICE && run + 1 < shared.runs) continue;
    const answer = answerOf(key, shared, values, found);
    if (answer.done === shared.runs) remember(key, answer);
    self.postMessage({ ...answer, request });
    await pause();
    if (stale()) return;
    begun = performance.now();
  }
}

function answerOf(key, shared, values, found) {
  const metrics = Object.fromEntries(Object.entries(values).map(([name, runs]) => [name, summarised(runs)]));
  return {
    type: "curve",
    key,
    metrics,
    done: found.length,
    runs: shared.runs,
    steps: snapshotSteps(shared.steps),
    diverged: found.filter((one) => one.divergedAt >= 0).length,
    idle: found.filter((one) => one.firstUpdate < 0).length,
    alpha: median(found.map((one) => one.alpha).filter((alpha) => alpha > 0)),
    begins: median(found.filter((one) => one.firstUpdate > 0).map((one) => one.firstUpdate - 1)),
  };
}

function remember(key, answer) {
  if (finished.size > 200) finished.clear();
  finished.set(key, answer);
}

// The moments depend on the problem, the rule, eta, lambda and the batch size, not on alpha.
function momentsFor(problem, setting) {
  const key = [problem, setting.algorithm, setting.eta, setting.lam, setting.batch_size].join();
  if (!momentsKept.has(key)) {
    const moments = momentsOf(problemAt(problem, setting.lam).law, setting);
    momentsKept.set(key, moments && { ...moments, threshold: stabilityThreshold(moments) });
  }
  return momentsKept.get(key);
}

function theory({ request, shared }, setting) {
  const key = settingKey(shared, setting);
  const moments = momentsFor(shared.problem, setting);
  const begins = finished.get(key)?.begins;
  const answer = { type: "theory", request, key, threshold: null, curve: null };
  if (moments) {
    const { law, problem } = problemAt(shared.problem, setting.lam);
    const gap = shared.steps / SNAPSHOTS, from = begins >= 0 ? begins : 0;
    const count = Math.floor((shared.steps - from) / gap);
    answer.threshold = moments.threshold;
    answer.curve = exactCurve(law, moments, setting.alpha, gap, count, problem.metrics);
    answer.steps = Array.from({ length: count + 1 }, (_, i) => from + i * gap);
  }
  self.postMessage(answer);
}

// The error at the end for many step-sizes, around alpha* where there is one.
async function sweep({ request, shared, setting }) {
  const stale = () => latest.sweep !== request;
  const moments = momentsFor(shared.problem, setting);
  const { law, problem, table } = problemAt(shared.problem, setting.lam);
  const runs = Math.min(shared.runs, SWEEP_RUNS), points = [];
  const grid = sweepGrid(moments?.threshold, setting.alpha);
  for (const alpha of grid) {
    const one = { ...setting, alpha }, finals = {};
    let diverged = 0;
    for (let run = 0; run < runs; run++) {
      const { thetas, divergedAt } = oneRun(shared, one, run);
      diverged += divergedAt >= 0;
      const last = thetas.subarray(thetas.length - table.d);
      for (const name in problem.metrics)
        finals[name] = (finals[name] || 0) + measured(problem.metrics[name], last, table.d)[0] / runs;
      if (run % 3 === 2) await pause();
      if (stale()) return;
    }
    const gap = shared.steps / SNAPSHOTS;
    const exact = moments && exactCurve(law, moments, alpha, gap, SNAPSHOTS, problem.metrics);
    const atEnd = exact && Object.fromEntries(Object.entries(exact).map(([name, y]) => [name, y[SNAPSHOTS]]));
    points.push({ alpha, mean: finals, diverged: diverged / runs, exact: atEnd });
    self.postMessage({
      type: "sweep",
      request,
      key: settingKey(shared, setting),
      runs,
      points,
      span: [grid[0], grid[grid.length - 1]],
      threshold: moments ? moments.threshold : null,
    });
    await pause();
  }
}

function sweepGrid(threshold, alpha) {
  const top = threshold > 0 ? 2 * threshold : 64 * alpha;
  return Array.from({ length: 21 }, (_, i) => top * 2 ** ((i - 20) / 2));
}
