/**
 * Explains a decision to operators: the record stored with the task, its sentence, and a table for terminals.
 * @see docs/fleet.md#routing
 */
import { byCodeUnit, capacityOf, loadOf } from './filters.ts';
import type { Explanation, Learned, Profile, Route, RoutePolicy, RouteTask } from './profile.ts';

/** Looks workers up for an explanation; implemented by the router. */
export interface ExplainedFleet {
  profile(agentId: string, nowMs: number): Profile | undefined;
  unhealthySinceMs(agentId: string, server: string): number | null;
}

/** A worker that is not connected, or does not respond. Times of the monotonic clock, milliseconds. */
export interface AbsentWorker {
  readonly agent_id: string;
  readonly sinceMs: number;
  /** Time until when tasks wait for it; null: they do not, or no longer. */
  readonly untilMs: number | null;
}

/** Facts beyond the connected workers, for a task that no worker can accept. */
export interface AbsenceInfo {
  /** The unreachable worker the task waits for, or names. */
  readonly away?: AbsentWorker;
  /** Names of all known workers, where the task names an unknown one. */
  readonly known?: readonly string[];
}

export interface ExplainContext {
  readonly policy: RoutePolicy;
  /** Monotonic clock, milliseconds. */
  readonly nowMs: number;
  /** The same moment, epoch milliseconds. */
  readonly wallMs: number;
  readonly nextAttemptMs: number | null;
  /** Number of workers left out that the route does not name. */
  readonly rejectedMore: number;
  readonly elsewhere?: AbsenceInfo | undefined;
  readonly learned?: Learned | undefined;
  readonly fleet: ExplainedFleet;
  /** Maximum number of workers to name. Default: 20 in order, 50 left out. */
  readonly most?: { readonly ranking: number; readonly rejected: number };
}

const MAX_NAMED = { ranking: 20, rejected: 50 };
/** Workers a sentence names beside the chosen one. */
const IN_SENTENCE = 3;
/** Known workers it names. */
const KNOWN_IN_SENTENCE = 10;
const MINUTE = { start: 11, end: 16 };

/** Returns the record of a decision. */
export function explanationOf(task: RouteTask, route: Route, context: ExplainContext): Explanation {
  const { policy, nowMs, wallMs, nextAttemptMs, rejectedMore, elsewhere, fleet, most = MAX_NAMED } = context;
  const away = isUnroutable(route) ? elsewhere?.away : undefined;
  const ranking = route.chosen === null ? [] : route.ranking.slice(0, most.ranking);
  const all = Object.entries(route.rejected ?? {});
  const rejected = all.slice(0, most.rejected);
  const ages: [string, number][] = [];
  for (const agentId of [...ranking.map(({ agent_id }) => agent_id), ...rejected.map(([agentId]) => agentId)]) {
    const profile = fleet.profile(agentId, nowMs);
    if (profile?.verified) ages.push([agentId, Math.floor(profile.age_s)]);
  }
  const rejected_more = rejectedMore + all.length - rejected.length;
  return {
    task_id: task.task_id,
    decided_at: new Date(wallMs).toISOString(),
    policy_id: policy.policy_id,
    chosen: route.chosen,
    verified: route.chosen === null ? false : route.verified,
    ranking,
    rejected: Object.fromEntries(rejected),
    rejected_more,
    profile_age_s: Object.fromEntries(ages),
    next_attempt_at: nextAttemptMs === null ? null : new Date(nextAttemptMs).toISOString(),
    ...(away !== undefined && away.untilMs !== null && { waits_for: away.agent_id }),
    ...(context.learned && { learned: context.learned }),
    sentence: sentenceOf(task, route, rejected, rejected_more, context),
  };
}

function sentenceOf(
  { task_id, only }: RouteTask,
  route: Route,
  rejected: readonly (readonly [string, readonly string[]])[],
  more: number,
  context: ExplainContext,
): string {
  const unroutable = isUnroutable(route);
  const { away, known } = (unroutable && context.elsewhere) || {};
  if (known !== undefined) return `${task_id} not routed: ${unknownWorker(only ?? '', known)}`;
  const parts = [headOf(task_id, route)];
  if (context.learned !== undefined) parts.push(learnedInWords(context.learned));
  if (away !== undefined) parts.push(absenceInWords(away, context));
  // The worker with the fewest reasons is the easiest one for an operator to make eligible.
  const nearest = rejected
    .filter(([agentId]) => agentId !== away?.agent_id)
    .sort((left, right) => left[1].length - right[1].length || byCodeUnit(left[0], right[0]));
  for (const [agentId, reasons] of nearest.slice(0, IN_SENTENCE)) {
    const texts = reasons.map((reason) => inWords(agentId, reason, context));
    const short = texts.length === 1 && texts[0]!.startsWith('at capacity');
    parts.push(short ? `${agentId} ${texts[0]}` : `${agentId} left out: ${texts.join(', ')}`);
  }
  const unnamed = more + Math.max(0, nearest.length - IN_SENTENCE);
  if (unnamed > 0) parts.push(`${unnamed} more left out`);
  if (unroutable && parts.length === 1) parts.push('no worker is connected');
  return parts.join('; ');
}

/** Returns whether no worker was eligible; false also where the task itself cannot be routed. */
function isUnroutable(route: Route): boolean {
  return route.chosen === null && route.rejected !== undefined;
}

function headOf(taskId: string, route: Route): string {
  if (route.chosen === null) return `${taskId} not routed: ${route.reason.replaceAll('_', ' ')}`;
  // Learning may have chosen another worker than the first one.
  const { score } = route.ranking.find(({ agent_id }) => agent_id === route.chosen) ?? route.ranking[0]!;
  const unchecked = route.verified ? '' : ', which never announced itself: no requirement was checked';
  return `${taskId} → ${route.chosen} (${score} of 1000)${unchecked}`;
}

function learnedInWords({ best_by_score, probabilities, chosen }: Learned): string {
  const shares = Object.entries(probabilities).map(([agentId, share]) => `${agentId} ${share.toFixed(2)}`);
  const among = `learning chooses among nearly equal workers (${shares.join(', ')})`;
  if (chosen === undefined) return among;
  return `${among}: ${chosen === best_by_score ? 'the best by score' : `instead of ${best_by_score}, the best by score`}`;
}

function absenceInWords({ agent_id, sinceMs, untilMs }: AbsentWorker, context: ExplainContext): string {
  const since = `unreachable since ${minuteOf(sinceMs, context)}`;
  if (untilMs === null) return `${agent_id} left out: ${since}`;
  return `waits until ${minuteOf(untilMs, context)} for ${agent_id}, ${since}`;
}

function unknownWorker(name: string, known: readonly string[]): string {
  if (known.length === 0) return `no worker is named ${name}; no worker is known`;
  const named = known.toSorted(byCodeUnit).slice(0, KNOWN_IN_SENTENCE).join(', ');
  const more = known.length > KNOWN_IN_SENTENCE ? ` and ${known.length - KNOWN_IN_SENTENCE} more` : '';
  return `no worker is named ${name}; known: ${named}${more}`;
}

/** Returns a moment of the monotonic clock as hour and minute. */
function minuteOf(atMs: number, { nowMs, wallMs }: ExplainContext): string {
  return new Date(wallMs - (nowMs - atMs)).toISOString().slice(MINUTE.start, MINUTE.end);
}

/** Returns a reason code as text for operators. */
function inWords(agentId: string, reason: string, context: ExplainContext): string {
  const { policy, fleet, nowMs } = context;
  const colon = reason.indexOf(':');
  const code = colon === -1 ? reason : reason.slice(0, colon);
  const detail = colon === -1 ? '' : reason.slice(colon + 1);
  const profile = fleet.profile(agentId, nowMs);
  switch (code) {
    case 'at_capacity':
      return profile === undefined ? 'at capacity' : `at capacity ${loadOf(profile)}/${capacityOf(profile, policy)}`;
    case 'unhealthy_mcp': {
      const [name = '', state = ''] = detail.split('=');
      const since = fleet.unhealthySinceMs(agentId, name);
      const has = state === 'timeout' ? 'has timed out' : `has been ${state}`;
      if (since === null) return `${name} is ${state}`;
      return `${name} ${has} since ${minuteOf(since, context)}`;
    }
    case 'missing_mcp':
      return `has no ${detail}`;
    case 'missing_capability':
      return `cannot use ${detail}`;
    case 'profile_expired':
      return profile === undefined ? 'its profile expired' : `its profile expired (${Math.floor(profile.age_s)} s old)`;
    default:
      return TEXTS[code] ?? reason.replaceAll('_', ' ');
  }
}

/** Reason code → text; codes without one are shown with blanks. */
const TEXTS: Readonly<Record<string, string>> = {
  excluded: 'it refused this task',
  joining: 'has not announced itself yet',
  other_worker_named: 'the task names another worker',
  other_pool: 'not in the pool of the task',
  circuit_open: 'its circuit breaker is open',
  context_busy: 'runs another turn of this conversation',
  tier_unknown: 'its tier is unknown',
  tier_too_low: 'its tier is too low',
  context_window: 'its context window is too small',
  dirty_repo: 'its working tree has changes',
  budget_too_small: 'an empty turn costs more than the budget',
  unreachable: 'does not respond',
  unverified: 'never announced itself',
  unverifiable_requirement: 'never announced itself, so a requirement cannot be checked',
};

const PARTS = ['tier', 'load', 'affinity', 'reliability', 'freshness', 'mcp', 'repo'] as const;

/** Returns an explanation as lines of a table, without a newline at the end. Names are cut at 40 characters. */
export function explanationTable(explanation: Explanation): string {
  const { ranking, rejected, rejected_more, profile_age_s: ages, next_attempt_at } = explanation;
  const lines = [explanation.sentence];
  if (ranking.length > 0) {
    const hooked = ranking.some(({ components }) => components.hooks !== undefined);
    const parts = hooked ? [...PARTS, 'hooks'] : [...PARTS];
    const head = ['#', 'worker', 'score', ...parts, 'age'];
    const rows = ranking.map(({ agent_id, score, components }, at) => [
      String(at + 1),
      cut(agent_id),
      String(score),
      ...parts.map((part) => String(components[part] ?? 0)),
      Object.hasOwn(ages, agent_id) ? `${ages[agent_id]} s` : '–',
    ]);
    lines.push('', ...columns([head, ...rows], (column) => column === 1));
  }
  const left = Object.entries(rejected);
  if (left.length > 0) {
    const rows = left.map(([agentId, reasons]) => [cut(agentId), reasons.join(', ')]);
    lines.push('', ...columns([['left out', 'reasons'], ...rows], () => true));
  }
  const { outcomes = {}, probabilities = {} } = explanation.learned ?? {};
  const learned = Object.entries(outcomes);
  if (learned.length > 0) {
    const rows = learned.map(([agentId, { attempts, succeeded }]) => {
      const share = (probabilities[agentId] ?? 0).toFixed(2);
      return [cut(agentId), share, String(attempts), String(succeeded)];
    });
    const head = ['learned', 'probability', 'attempts', 'succeeded'];
    lines.push('', ...columns([head, ...rows], (column) => column === 0));
  }
  if (rejected_more > 0) lines.push(`… and ${rejected_more} more`);
  if (next_attempt_at !== null) lines.push('', `next attempt at ${next_attempt_at}`);
  return lines.join('\n');
}

function cut(name: string): string {
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}

function columns(rows: readonly (readonly string[])[], leftAligned: (column: number) => boolean): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (leftAligned(column) ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  );
}
