/**
 * The targets of Handfast, as median ratios within a round, and whether a run reached them.
 */
import type { TransportName } from './contenders/contender.ts';
import { type HeatResult, type Metric, ratio, type Spread } from './rounds.ts';

interface Target {
  /** The contender of the figure. Default `handfast`. */
  readonly contender?: string;
  readonly workload: string;
  readonly transport: TransportName;
  readonly against: string;
  readonly metric: Metric;
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface TargetOutcome {
  /** The target in one line. */
  readonly target: string;
  /** The measured ratio; undefined when the run left it out. */
  readonly ratio: Spread | undefined;
  readonly outcome: 'reached' | 'missed' | 'not measured';
}

const least = (workload: string, transport: TransportName, against: string, atLeast: number): Target => ({
  workload,
  transport,
  against,
  metric: 'value',
  atLeast,
});
const most = (
  workload: string,
  transport: TransportName,
  against: string,
  atMost: number,
  metric: Metric = 'value',
): Target => ({ workload, transport, against, metric, atMost });

const ACP = '@agentclientprotocol/sdk';
const MCP = '@modelcontextprotocol/client';

const targets: readonly Target[] = [
  least('unary64', 'memory', 'bare', 1.2),
  least('unary64', 'stdio', 'limit', 0.55),
  least('unary64', 'tcp', 'limit', 0.55),
  least('unary64', 'websocket', 'limit', 0.5),
  least('unary64', 'http', 'bare', 0.6),
  least('small64', 'memory', 'bare', 1),
  least('events', 'memory', 'bare', 5),
  least('events', 'stdio', 'limit', 0.45),
  least('events', 'tcp', 'limit', 0.5),
  least('events', 'websocket', 'limit', 0.45),
  least('unary64', 'stdio', ACP, 1.6),
  least('unary64', 'stdio', MCP, 2.8),
  least('unary64', 'stdio', 'vscode-jsonrpc', 3.5),
  least('unary64', 'websocket', 'capnweb', 3.5),
  least('unary64', 'http', MCP, 4),
  ...(['stdio', 'tcp'] as const).flatMap((transport) => [
    most('unary1', transport, 'bare', 1.25, 'cpuUsPerCall'),
    most('unary1', transport, 'bare', 1.15, 'p50Us'),
  ]),
  ...(['payload256k', 'payload1m'] as const).flatMap((workload) => [
    least(workload, 'stdio', 'bare', 0.85),
    least(workload, 'tcp', 'bare', 0.85),
    least(workload, 'websocket', 'bare', 0.9),
  ]),
  { ...least('small64', 'stdio', 'limit', 0.6), contender: 'handfast-stdio' },
  least('setup', 'tcp', 'bare', 0.65),
  most('start', 'stdio', 'bare', 1.35),
  most('idle', 'tcp', 'bare', 1.5),
  least('frame', 'memory', 'bare', 0.95),
];

const metricNames: Record<Metric, string> = { value: '', cpuUsPerCall: ' CPU', p50Us: ' p50' };

function resultOf(results: readonly HeatResult[], workload: string, transport: string): HeatResult | undefined {
  return results.find(({ heat }) => heat.workload.name === workload && heat.transport === transport);
}

function judge(results: readonly HeatResult[], target: Target): TargetOutcome {
  const { contender = 'handfast', workload, transport, against, metric, atLeast, atMost } = target;
  const bound = atLeast !== undefined ? `≥ ${atLeast}` : `≤ ${atMost}`;
  const named = contender === 'handfast' ? '' : ` ${contender}`;
  const line = `${workload} ${transport}${named}${metricNames[metric]} ${bound} × ${against}`;
  const result = resultOf(results, workload, transport);
  const measured = result && ratio(result, contender, against, metric);
  if (measured === undefined) return { target: line, ratio: undefined, outcome: 'not measured' };
  const reached =
    measured.median >= (atLeast ?? Number.NEGATIVE_INFINITY) && measured.median <= (atMost ?? Number.POSITIVE_INFINITY);
  return { target: line, ratio: measured, outcome: reached ? 'reached' : 'missed' };
}

/** Judges that all events arrived, in order, before the reply, in every round. */
function judgeDelivery(result: HeatResult): TargetOutcome {
  const line = `events ${result.heat.transport}: all delivered, in order, before the reply`;
  const shares = (result.samples.get('handfast') ?? []).map((sample) => sample?.delivered ?? 0);
  if (shares.length === 0) return { target: line, ratio: undefined, outcome: 'not measured' };
  const low = Math.min(...shares);
  return {
    target: line,
    ratio: { median: low, low, high: Math.max(...shares) },
    outcome: low === 1 ? 'reached' : 'missed',
  };
}

/** Judges that Handfast is ahead of one peer in one cell. */
function judgePeer(result: HeatResult, peer: string): TargetOutcome {
  const { workload, transport } = result.heat;
  const line = `${workload.name} ${transport}: ahead of ${peer}`;
  const measured = ratio(result, 'handfast', peer);
  if (measured === undefined) return { target: line, ratio: undefined, outcome: 'not measured' };
  const ahead = workload.lowerIsBetter ? measured.median < 1 : measured.median > 1;
  return { target: line, ratio: measured, outcome: ahead ? 'reached' : 'missed' };
}

/** Judges a run. Targets of heats that were not part of the run are left out. */
export function judgeTargets(results: readonly HeatResult[]): readonly TargetOutcome[] {
  const outcomes = targets
    .filter((target) => resultOf(results, target.workload, target.transport) !== undefined)
    .map((target) => judge(results, target));
  for (const result of results) {
    if (!result.heat.contenders.some((entry) => entry.name === 'handfast')) continue;
    if (result.heat.workload.name === 'events') outcomes.push(judgeDelivery(result));
    for (const entry of result.heat.contenders) if (entry.peer) outcomes.push(judgePeer(result, entry.name));
  }
  return outcomes;
}
