/**
 * Runs the heats in interleaved rounds and stores every sample by round, so that contenders are compared within a round
 * (same minute, same machine load) and only the ratios are averaged.
 *
 * A sitting starts fresh processes and throws its first round away (code is compiled then); the order of the contenders
 * moves on by one every round, so that none is always measured after the same one.
 */
import type { Entry } from './contenders/registry.ts';
import { Pair } from './pair.ts';
import type { Heat } from './plan.ts';
import { type Measurement, median, type RunSettings } from './workloads/workload.ts';

/** Least length of the round that is thrown away. */
const WARM_UP_MS = 480;

export interface RoundSettings extends RunSettings {
  /** Number of stored rounds, over all sittings. */
  readonly rounds: number;
  /** Number of sittings, before each of which all processes are started again. */
  readonly sittings: number;
  /** Rounds of workloads that start processes for every measurement. */
  readonly freshRounds: number;
}

/** The samples of one heat: contender → stored round → measurement. A round that failed has none. */
export interface HeatResult {
  readonly heat: Heat;
  readonly samples: ReadonlyMap<string, readonly (Measurement | undefined)[]>;
  /** Contender → why it was taken out. */
  readonly failures: ReadonlyMap<string, string>;
}

/** A median with the lowest and the highest it came from. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export type Metric = 'value' | 'cpuUsPerCall' | 'p50Us';

interface Mutable {
  readonly heat: Heat;
  readonly samples: Map<string, (Measurement | undefined)[]>;
  readonly failures: Map<string, string>;
}

/** Measures all heats; `progress` gets one short line before each workload. */
export async function runHeats(
  heats: readonly Heat[],
  settings: RoundSettings,
  progress: (line: string) => void,
): Promise<readonly HeatResult[]> {
  const results: Mutable[] = heats.map((heat) => ({ heat, samples: new Map(), failures: new Map() }));
  const transports = new Set(heats.map((heat) => heat.transport));
  for (let sitting = 0; sitting < settings.sittings; sitting++) {
    for (const transport of transports) {
      const pairs = new Map<string, Pair>();
      try {
        for (const result of results) {
          if (result.heat.transport !== transport) continue;
          progress(`sitting ${sitting + 1}/${settings.sittings}: ${result.heat.workload.name} on ${transport}`);
          await runHeat(result, pairs, sitting, settings, progress);
        }
      } finally {
        await Promise.all([...pairs.values()].map((pair) => pair.close()));
      }
    }
  }
  return results;
}

async function runHeat(
  result: Mutable,
  pairs: Map<string, Pair>,
  sitting: number,
  settings: RoundSettings,
  progress: (line: string) => void,
): Promise<void> {
  const { workload, contenders } = result.heat;
  const each = Math.ceil(settings.rounds / settings.sittings);
  // Fresh processes have nothing to warm up from round to round.
  const thrownAway = workload.fresh ? 0 : 1;
  // Long enough for the compiler to finish with every contender, also if the rounds are short.
  const warmUp = { ...settings, durationMs: Math.max(settings.durationMs, WARM_UP_MS) };
  for (let round = -thrownAway; round < each; round++) {
    const kept = sitting * each + round;
    if (workload.fresh && kept >= settings.freshRounds) return;
    for (let turn = 0; turn < contenders.length; turn++) {
      const entry = contenders[(turn + round + thrownAway) % contenders.length] as Entry;
      if (result.failures.has(entry.name)) continue;
      try {
        const measurement = await measure(result.heat, entry, pairs, round < 0 ? warmUp : settings);
        if (round < 0) continue;
        const samples = result.samples.get(entry.name) ?? [];
        samples[kept] = measurement;
        result.samples.set(entry.name, samples);
      } catch (thrown) {
        const reason = thrown instanceof Error ? thrown.message : String(thrown);
        result.failures.set(entry.name, reason);
        progress(`  ${entry.name} is out: ${reason}`);
        // Its processes may be in any state now: the next heat starts new ones.
        await pairs.get(entry.name)?.close();
        pairs.delete(entry.name);
      }
    }
  }
}

async function measure(
  { workload, transport }: Heat,
  entry: Entry,
  pairs: Map<string, Pair>,
  settings: RoundSettings,
): Promise<Measurement> {
  if (workload.fresh) {
    const pair = await Pair.start(entry, transport);
    try {
      return await pair.run(workload.name, settings);
    } finally {
      await pair.close();
    }
  }
  let pair = pairs.get(entry.name);
  if (pair === undefined) {
    pair = await Pair.start(entry, transport);
    pairs.set(entry.name, pair);
  }
  return pair.run(workload.name, settings);
}

function spreadOf(numbers: readonly number[]): Spread | undefined {
  if (numbers.length === 0) return undefined;
  return { median: median(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

/** Returns median and range of one contender's own numbers. */
export function spread(result: HeatResult, contender: string, metric: Metric): Spread | undefined {
  const numbers: number[] = [];
  for (const sample of result.samples.get(contender) ?? []) {
    const number = sample?.[metric];
    if (number !== undefined) numbers.push(number);
  }
  return spreadOf(numbers);
}

/** Returns median and range of the ratios `contender ÷ against`, taken within each round. */
export function ratio(
  result: HeatResult,
  contender: string,
  against: string,
  metric: Metric = 'value',
): Spread | undefined {
  const own = result.samples.get(contender) ?? [];
  const others = result.samples.get(against) ?? [];
  const ratios: number[] = [];
  for (const [round, sample] of own.entries()) {
    const above = sample?.[metric];
    const below = others[round]?.[metric];
    if (above !== undefined && below !== undefined && below > 0) ratios.push(above / below);
  }
  return spreadOf(ratios);
}
