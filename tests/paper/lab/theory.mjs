// Asks the page's theory: reads {tables, jobs} from stdin, prints alpha*, the exact curve, the metrics and the solution of each job.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const assets = pathToFileURL(process.argv[2] + "/");
const { prepared } = await import(new URL("stream.mjs", assets));
const { problemWithTraces } = await import(new URL("tracelaw.mjs", assets));
const { exactCurve, lawOf, momentsOf, stabilityThreshold } = await import(new URL("theory.mjs", assets));

const { tables, jobs } = JSON.parse(readFileSync(0, "utf8"));
const answers = jobs.map(({ problem, setting, gap, count }) => {
  const table = prepared(tables[problem]);
  const known = problemWithTraces(tables[problem], table, setting.lam);
  const law = lawOf(known, table), moments = momentsOf(law, setting);
  const found = { metrics: known.metrics, theta_star: known.theta_star, threshold: null, curve: null };
  if (!moments) return found;
  const curve = exactCurve(law, moments, setting.alpha, gap, count, known.metrics);
  return { ...found, threshold: stabilityThreshold(moments), curve };
});
console.log(JSON.stringify(answers));
