// The same run outside the page, as Python and as a command.
import { SNAPSHOTS, settingOf } from "./settings.mjs";

// The library's name of an algorithm and the settings that differ from its defaults.
function outside(curve) {
  const { algorithm, ...rest } = settingOf(curve);
  const automatic = algorithm === "impression_gtd_auto";
  const hyper = automatic ? { alpha: "auto", ...rest } : rest;
  if (hyper.split === "odd-even") delete hyper.split;
  if (hyper.start === 0) delete hyper.start;
  if (hyper.lam === 0) delete hyper.lam;
  return [automatic ? "impression_gtd" : algorithm, hyper];
}

export function asPython(state, curve) {
  const [algorithm, hyper] = outside(curve);
  const { problem, runs, steps, seed, metric } = state;
  const given = Object.entries(hyper).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const lines = [
    "import gradtd",
    "",
    "result = gradtd.run(",
    `    "${problem}",`,
    `    "${algorithm}",`,
    ...given.map((text) => `    ${text},`),
    `    runs=${runs},`,
    `    steps=${steps},`,
    `    seed=${seed},`,
    `    snapshots=range(0, ${steps + 1}, ${steps / SNAPSHOTS}),`,
    ")",
    `error = gradtd.measure(result, "${metric}")`,
    "print(error.mean(axis=0)[-1])",
  ];
  return lines.join("\n") + "\n";
}

export function asCommand(state, curve) {
  const [algorithm, hyper] = outside(curve);
  const { problem, runs, steps, seed, metric } = state;
  const given = Object.entries(hyper).map(([name, value]) => `--set ${name}=${value}`);
  const numbers = [`--runs ${runs}`, `--steps ${steps}`, `--seed ${seed}`, `--metric ${metric}`];
  return ["gradtd run", problem, algorithm, ...given, ...numbers].join(" ");
}
