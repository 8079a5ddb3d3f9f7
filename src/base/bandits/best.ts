/**
 * The probability that each of some options has the highest mean reward, by numerical integration over their
 * posteriors.
 *
 * Thompson sampling picks an option with exactly this probability. Computing it and drawing once, instead of drawing from
 * every posterior, makes the logged propensity the one that was used.
 */

/** The belief about an option's mean reward: a Beta distribution if `a` is given, else a normal one. */
export type Posterior =
  | { readonly a: number; readonly b: number }
  | { readonly mean: number; readonly deviation: number };

/** Nodes of one option's own grid; the grids of all are merged, so a narrow posterior beside a wide one is resolved too. */
const NODES = 33;
/** Reach of a grid from the mean, in standard deviations. */
const REACH = 6;
/** Logarithm of a density that counts as 0. */
const NEGLIGIBLE = -40;
/** Beta posteriors can be far from normal: nodes over the whole of 0 to 1. */
const OVER_UNIT = 24;

/** Probabilities in the order of the posteriors; they add up to 1. */
export function probabilitiesOfBest(posteriors: readonly Posterior[]): Float64Array {
  const result = new Float64Array(posteriors.length);
  if (posteriors.length === 1) result[0] = 1;
  if (posteriors.length < 2) return result;
  const nodes = nodesOf(posteriors);
  const size = nodes.length;
  const logs = posteriors.some((posterior) => 'a' in posterior) ? logsOf(nodes) : NO_LOGS;
  const densities = posteriors.map((posterior) => densityAt(posterior, nodes, logs));
  const below = densities.map((density) => cumulated(density, nodes));
  // The product of the others' distribution functions, without dividing by one that may be 0.
  const count = posteriors.length;
  const before = new Float64Array(count + 1);
  let total = 0;
  const at = new Float64Array(count);
  const previous = new Float64Array(count);
  for (let node = 0; node < size; node++) {
    before[0] = 1;
    for (let option = 0; option < count; option++) before[option + 1] = before[option]! * below[option]![node]!;
    let after = 1;
    for (let option = count - 1; option >= 0; option--) {
      at[option] = densities[option]![node]! * before[option]! * after;
      after *= below[option]![node]!;
    }
    if (node > 0) {
      const half = (nodes[node]! - nodes[node - 1]!) / 2;
      for (let option = 0; option < count; option++) result[option]! += half * (at[option]! + previous[option]!);
    }
    previous.set(at);
  }
  for (const part of result) total += part;
  if (!(total > 0)) return result.fill(1 / count);
  for (let option = 0; option < count; option++) result[option]! /= total;
  return result;
}

function nodesOf(posteriors: readonly Posterior[]): Float64Array {
  const nodes: number[] = [];
  let isUnit = true;
  for (const posterior of posteriors) {
    const { mean, deviation, low, high } = spanOf(posterior);
    if (!('a' in posterior)) isUnit = false;
    for (let node = 0; node < NODES; node++) {
      const offset = (2 * node) / (NODES - 1) - 1;
      const x = mean + REACH * deviation * offset;
      if (x > low && x < high) nodes.push(x);
    }
  }
  if (isUnit) for (let node = 0; node <= OVER_UNIT; node++) nodes.push(node / OVER_UNIT);
  return Float64Array.from(nodes).sort();
}

function spanOf(posterior: Posterior): { mean: number; deviation: number; low: number; high: number } {
  if (!('a' in posterior)) return { ...posterior, low: -Infinity, high: Infinity };
  const { a, b } = posterior;
  const sum = a + b;
  return { mean: a / sum, deviation: Math.sqrt((a * b) / (sum * sum * (sum + 1))), low: 0, high: 1 };
}

/** Returns the density at each node, scaled so that the greatest is 1. `logs`: see {@link logsOf}. */
function densityAt(posterior: Posterior, nodes: Float64Array, [logs, logsBeyond]: Logs): Float64Array {
  const size = nodes.length;
  const density = new Float64Array(size);
  let greatest = -Infinity;
  if ('a' in posterior) {
    const a = posterior.a - 1;
    const b = posterior.b - 1;
    for (let node = 0; node < size; node++) {
      // 0 × log 0 is no number; the power is 1.
      const log = (a === 0 ? 0 : a * logs[node]!) + (b === 0 ? 0 : b * logsBeyond[node]!);
      density[node] = log;
      if (log > greatest) greatest = log;
    }
  } else {
    const { mean, deviation } = posterior;
    for (let node = 0; node < size; node++) {
      const offset = (nodes[node]! - mean) / deviation;
      const log = -(offset * offset) / 2;
      density[node] = log;
      if (log > greatest) greatest = log;
    }
  }
  for (let node = 0; node < size; node++) {
    const log = density[node]! - greatest;
    density[node] = log < NEGLIGIBLE ? 0 : Math.exp(log);
  }
  return density;
}

type Logs = readonly [Float64Array, Float64Array];

/** Returns the logarithms of each node and of one minus it, which all Beta posteriors share. */
function logsOf(nodes: Float64Array): Logs {
  return [nodes.map(Math.log), nodes.map((x) => Math.log1p(-x))];
}

const NO_LOGS: Logs = [new Float64Array(0), new Float64Array(0)];

/** Returns the distribution function at each node by the trapezoidal rule; scales the density with it to an integral of 1. */
function cumulated(density: Float64Array, nodes: Float64Array): Float64Array {
  const sums = new Float64Array(nodes.length);
  for (let node = 1; node < nodes.length; node++) {
    sums[node] = sums[node - 1]! + ((density[node]! + density[node - 1]!) * (nodes[node]! - nodes[node - 1]!)) / 2;
  }
  const total = sums[nodes.length - 1]!;
  for (let node = 0; node < nodes.length; node++) {
    sums[node]! /= total;
    density[node]! /= total;
  }
  return sums;
}
