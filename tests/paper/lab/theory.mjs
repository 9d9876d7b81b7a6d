// Asks the page's theory: reads {tables, jobs} from stdin, prints alpha* and the exact curve of each job.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const assets = pathToFileURL(process.argv[2] + "/");
const { prepared } = await import(new URL("stream.mjs", assets));
const { exactCurve, lawOf, momentsOf, stabilityThreshold } = await import(new URL("theory.mjs", assets));

const { tables, jobs } = JSON.parse(readFileSync(0, "utf8"));
const answers = jobs.map(({ problem, setting, gap, count }) => {
  const law = lawOf(tables[problem], prepared(tables[problem]));
  const moments = momentsOf(law, setting);
  const curve = exactCurve(law, moments, setting.alpha, gap, count, tables[problem].metrics);
  return { threshold: stabilityThreshold(moments), curve };
});
console.log(JSON.stringify(answers));
