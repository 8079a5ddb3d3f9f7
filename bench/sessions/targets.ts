/**
 * The targets of the control edge, and whether a run reached them.
 */
import { compared, type Result, type Spread, spread, spreadOf } from './rounds.ts';
import type { Serialised } from './stream.ts';

export interface TargetOutcome {
  /** The target in one line. */
  readonly target: string;
  /** The measured value; undefined when it could not be measured. */
  readonly measured: Spread | undefined;
  readonly outcome: 'reached' | 'missed' | 'not measured';
}

/** Judges the median by a test. */
export function judged(
  target: string,
  measured: Spread | undefined,
  reaches: (median: number) => boolean,
): TargetOutcome {
  if (measured === undefined) return { target, measured, outcome: 'not measured' };
  return { target, measured, outcome: reaches(measured.median) ? 'reached' : 'missed' };
}

const exactly = (value: number): Spread => ({ median: value, low: value, high: value });

/** Judges the server's cost of a subscriber among many, as a share of its cost alone: work that is done once is paid once. */
function judgeShares(results: readonly Result[]): TargetOutcome[] {
  const cpuOf = (subscribers: number): (number | undefined)[] | undefined =>
    results
      .find(({ workload }) => workload.name === `stream${subscribers}`)
      ?.samples.get('handfast')
      ?.map((sample) => sample?.[`stream${subscribers}-cpu`]);
  const alone = cpuOf(1);
  const among = cpuOf(20);
  if (alone === undefined || among === undefined) return [];
  const shares = among.flatMap((cpu, round) => {
    const whole = alone[round];
    return cpu === undefined || whole === undefined ? [] : cpu / whole;
  });
  const target = 'stream: CPU for one of 20 subscribers ≤ 0.25 × for one alone';
  return [judged(target, spreadOf(shares), (share) => share <= 0.25)];
}

/** Judges a run. `chunks` is the number of chunks of the turns in which `serialised` was counted. */
export function judgeTargets(
  results: readonly Result[],
  serialised: Serialised,
  chunks: number,
): readonly TargetOutcome[] {
  const outcomes: TargetOutcome[] = [];
  for (const result of results) {
    const { name, transport } = result.workload;
    const against = (other: string): Spread | undefined => compared(result, 'handfast', other, name);
    if (name.startsWith('rpc-ping') && transport === 'stdio') {
      outcomes.push(
        judged(`${name} ${transport} ≥ 0.65 × bare`, against('bare'), (ratio) => ratio >= 0.65),
        judged(`${name} ${transport}: ahead of vscode-jsonrpc`, against('vscode-jsonrpc'), (ratio) => ratio > 1),
      );
    }
    if (name.startsWith('stream')) {
      const rounds = result.samples.get('handfast')?.length;
      const isOut = result.failures.has('handfast');
      outcomes.push(
        judged(
          `${name}: every chunk to every subscriber, once and in order`,
          isOut || rounds === undefined ? exactly(0) : exactly(1),
          (share) => share === 1,
        ),
      );
    }
    if (name === 'first-chunk') {
      const added = compared(result, 'handfast', 'bare', name, (own, bare) => own - bare);
      outcomes.push(judged('first-chunk: added < 2 ms', added, (ms) => ms < 2));
    }
    if (name === 'open') {
      outcomes.push(judged('open < 50 ms', spread(result, 'handfast', name), (ms) => ms < 50));
    }
  }
  outcomes.push(...judgeShares(results));
  for (const [subscribers, texts] of serialised) {
    const target = `texts made of a chunk with ${subscribers} subscriber${subscribers === 1 ? '' : 's'}: 1`;
    outcomes.push(judged(target, exactly(texts / chunks), (each) => each === 1));
  }
  return outcomes;
}
