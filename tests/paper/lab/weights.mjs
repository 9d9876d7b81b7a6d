// Runs settings through the page's kernel: reads {tables, jobs} from stdin, prints the bytes of the weights in hex.
// With `plain` as its last word, as a browser without WebAssembly would.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

if (process.argv[3] === "plain") globalThis.WebAssembly = undefined;
const assets = pathToFileURL(process.argv[2] + "/");
const { prepared, sample } = await import(new URL("stream.mjs", assets));
const { runOnce } = await import(new URL("loop.mjs", assets));

const { tables, jobs } = JSON.parse(readFileSync(0, "utf8"));
const made = Object.fromEntries(Object.entries(tables).map(([name, problem]) => [name, prepared(problem)]));
const answers = jobs.map(({ problem, setting, steps, seed, run, at }) => {
  const stream = sample(made[problem], steps, seed, run);
  const found = runOnce(made[problem], stream, setting, seed, run, at);
  return { hex: Buffer.from(found.thetas.buffer).toString("hex"), divergedAt: found.divergedAt };
});
console.log(JSON.stringify(answers));
