/**
 * Measures the workloads in interleaved rounds, so that contenders are compared within a round (same minute, same machine
 * load) and only ratios and differences are averaged. The first round is thrown away: code is compiled then. The order of
 * the contenders moves on by one every round.
 */
import { median } from '../workloads/workload.ts';
import type { Contender, Figure, Measurement, Workload } from './workload.ts';

/** A median with the lowest and the highest it came from. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** The samples of the rounds of one workload: contender → stored round → measurement. */
export interface Result {
  readonly workload: Workload<never>;
  readonly samples: ReadonlyMap<string, readonly (Measurement | undefined)[]>;
  /** Contender → why it was taken out. */
  readonly failures: ReadonlyMap<string, string>;
}

/** Runs all rounds; `progress` gets a short line before each, and one for a contender that is out. */
export async function runRounds<Given>(
  workloads: readonly Workload<Given>[],
  rounds: number,
  settings: Given,
  progress: (line: string) => void,
): Promise<readonly Result[]> {
  const results = workloads.map((workload) => ({
    workload,
    samples: new Map<string, (Measurement | undefined)[]>(),
    failures: new Map<string, string>(),
  }));
  for (let round = -1; round < rounds; round++) {
    progress(round < 0 ? 'warming up' : `round ${round + 1}/${rounds}`);
    for (const { workload, samples, failures } of results) {
      const { contenders } = workload;
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(turn + round + 1) % contenders.length] as Contender<Given>;
        if (failures.has(contender.name)) continue;
        try {
          const measurement = await contender.measure(settings);
          if (round < 0) continue;
          const kept = samples.get(contender.name) ?? [];
          kept[round] = measurement;
          samples.set(contender.name, kept);
        } catch (thrown) {
          const reason = thrown instanceof Error ? thrown.message : String(thrown);
          failures.set(contender.name, reason);
          progress(`  ${workload.name} ${contender.name} is out: ${reason}`);
        }
      }
    }
  }
  return results;
}

/** Returns the spread; undefined for no numbers. */
export function spreadOf(numbers: readonly number[]): Spread | undefined {
  if (numbers.length === 0) return undefined;
  return { median: median(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

/** Returns the spread of a contender's own numbers. */
export function spread({ samples }: Result, contender: string, figure: string): Spread | undefined {
  return spreadOf((samples.get(contender) ?? []).flatMap((sample) => sample?.[figure] ?? []));
}

/** Returns the spread of the result of `combine` for two contenders' numbers of the same round. */
export function compared(
  { samples }: Result,
  contender: string,
  against: string,
  figure: Figure['name'],
  combine: (own: number, other: number) => number = (own, other) => own / other,
): Spread | undefined {
  const others = samples.get(against) ?? [];
  const numbers: number[] = [];
  for (const [round, sample] of (samples.get(contender) ?? []).entries()) {
    const own = sample?.[figure];
    const other = others[round]?.[figure];
    if (own !== undefined && other !== undefined) numbers.push(combine(own, other));
  }
  return spreadOf(numbers);
}
