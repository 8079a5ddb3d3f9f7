/**
 * Decides whether a worker is eligible for a task. Collects every failing reason, not only the first, so that an operator
 * who removes one obstacle does not find another behind it.
 *
 * Pure.
 * @see docs/fleet.md#routing
 */
import type { Profile, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { rankOf } from './tiers.ts';

/** No worker is excluded. */
export const NO_EXCLUSIONS: ReadonlySet<string> = new Set();

/** Returns the reason why a task cannot be routed to any worker; null: routing can be tried. */
export function taskReason(task: RouteTask, policy: RoutePolicy, nowMs: number): string | null {
  if (task.deadlineMs === null) return null;
  const leftMs = task.deadlineMs - nowMs;
  if (leftMs <= 0) return 'deadline_passed';
  return leftMs < policy.min_lead_s * 1000 ? 'deadline_too_close' : null;
}

/** Returns the known number of turns and dispatches of a worker. */
export function loadOf({ active_tasks, outstanding }: Profile): number {
  return active_tasks + outstanding;
}

/** Returns the number of turns that a worker can run at once, at least one. */
export function capacityOf({ max_concurrent }: Profile, policy: RoutePolicy): number {
  return max_concurrent ?? policy.default_max_concurrent;
}

/** Returns the lifetime of a worker's profile, milliseconds. */
export function ttlMsOf({ ttl_s }: Profile, policy: RoutePolicy): number {
  return Math.round((ttl_s ?? policy.ttl_s) * 1000);
}

/** Returns the age of the profile, milliseconds. */
export function ageMsOf({ age_s }: Profile): number {
  return Math.round(age_s * 1000);
}

/** Returns whether the worker's last conversation is the one this task continues. */
export function sameContext({ context_id }: RouteTask, profile: Profile): boolean {
  return context_id !== null && profile.context_id === context_id;
}

/**
 * Returns all reasons against this worker for this task, sorted by code unit; empty: it is eligible. `ageMs`: age of the
 * profile, where it differs from `age_s`. `withHooked` adds the reasons of policy hooks.
 */
export function reasonsAgainst(
  task: RouteTask,
  profile: Profile,
  policy: RoutePolicy,
  excluded: ReadonlySet<string> = NO_EXCLUSIONS,
  ageMs = ageMsOf(profile),
): string[] {
  // Checked in the order of the reason codes, so that the list is nearly always sorted already.
  const reasons: string[] = [];
  const { verified } = profile;
  if (loadOf(profile) >= capacityOf(profile, policy)) reasons.push('at_capacity');
  if (verified && !fitsBudget(task, profile.overhead_tokens)) reasons.push('budget_too_small');
  if (profile.circuit === 'open') reasons.push('circuit_open');
  if (task.context_id !== null && profile.busy_contexts.includes(task.context_id)) reasons.push('context_busy');
  if (verified && !fitsWindow(task, profile.context_window)) reasons.push('context_window');
  if (verified && wouldMixDirt(task, profile) && !sameContext(task, profile)) reasons.push('dirty_repo');
  if (profile.draining) reasons.push('draining');
  if (excluded.has(profile.agent_id)) reasons.push('excluded');
  if (verified) addMissing(task, profile, reasons);
  if (task.pool !== null && !profile.pools.includes(task.pool)) reasons.push('other_pool');
  if (task.only !== null && task.only !== profile.agent_id) reasons.push('other_worker_named');
  if (verified) {
    if (ageMs >= ttlMsOf(profile, policy)) reasons.push('profile_expired');
    addTier(task, profile, policy, reasons);
    addUnhealthy(task, profile, reasons);
  } else if (profile.joining === true) reasons.push('joining');
  else {
    if (!profile.reachable) reasons.push('unreachable');
    if (task.min_tier !== null || task.min_context_window !== null) reasons.push('unverifiable_requirement');
    if (policy.unverified === 'never') reasons.push('unverified');
  }
  return sorted(reasons);
}

/** Returns the reasons with those of the hooks, if the policy has hooks. */
export function withHooked(
  reasons: string[],
  hooks: RouteHooks | undefined,
  task: RouteTask,
  profile: Profile,
): string[] {
  const more = hooks?.reject(task, profile) ?? [];
  return more.length > 0 ? sorted([...reasons, ...more]) : reasons;
}

/** Compares as `<` on strings: independent of the locale. */
export function byCodeUnit(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function sorted(reasons: string[]): string[] {
  for (let at = 1; at < reasons.length; at += 1) {
    if (reasons[at - 1]! > reasons[at]!) return reasons.sort(byCodeUnit);
  }
  return reasons;
}

function addMissing(task: RouteTask, profile: Profile, reasons: string[]): void {
  for (const name of task.required_capabilities) {
    if (!profile.tools.includes(name)) reasons.push(`missing_capability:${name}`);
  }
  for (const name of task.required_mcp) {
    if (!profile.mcp_servers.includes(name)) reasons.push(`missing_mcp:${name}`);
  }
}

function addUnhealthy(task: RouteTask, profile: Profile, reasons: string[]): void {
  for (const name of task.required_mcp) {
    const state = profile.mcp_health.get(name);
    if (state !== 'ok' && profile.mcp_servers.includes(name)) {
      reasons.push(`unhealthy_mcp:${name}=${state ?? 'unknown'}`);
    }
  }
}

function addTier({ min_tier }: RouteTask, { model_tier }: Profile, policy: RoutePolicy, reasons: string[]): void {
  if (min_tier === null) return;
  const rank = rankOf(model_tier, policy);
  const least = rankOf(min_tier, policy);
  if (rank === undefined || least === undefined) reasons.push('tier_unknown');
  else if (rank < least) reasons.push('tier_too_low');
}

/** Returns the context window that a brief needs, tokens: four bytes a token, and it may fill half the window. */
export function windowNeed({ brief_bytes }: RouteTask): number {
  return 2 * Math.ceil(brief_bytes / 4);
}

/** Returns whether a window fits. An unknown window is large enough for any brief, but satisfies no stated minimum. */
export function fitsWindow(task: RouteTask, window: number | null): boolean {
  if (window === null) return task.min_context_window === null;
  return window >= (task.min_context_window ?? 0) && window >= windowNeed(task);
}

/** Returns whether the budget covers an empty turn. Where either figure is unknown, the worker is tried. */
export function fitsBudget({ token_budget }: RouteTask, overhead: number | null): boolean {
  return token_budget === null || overhead === null || token_budget >= overhead;
}

/** True when the task would write into uncommitted changes. A worker without a repository has none. */
export function wouldMixDirt({ access }: RouteTask, { repo_state }: Profile): boolean {
  return access === 'write' && repo_state !== null && !repo_state.clean;
}
