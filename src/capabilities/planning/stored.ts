/**
 * Plans, tasks and their history in their stored form, and the actors in them.
 *
 * All are plain JSON and never modified in place.
 */
import type { Entry, Rules, Share } from './planning.schema.ts';

/** The actor: an agent of a principal. An empty principal is the host itself, when a lease expires. */
export interface Actor {
  readonly principal: string;
  readonly agent: string;
}

export interface StoredPlan {
  readonly plan_id: string;
  readonly name: string;
  readonly columns: readonly string[];
  readonly description: string;
  readonly owner: string;
  /** The only agent of the owner that may use it; '' = all. */
  readonly agent: string;
  readonly shares: readonly Share[];
  readonly rules: Rules;
  readonly revision: number;
  readonly archived: boolean;
  readonly created_at: number;
  /** Its last entry that is about no task. */
  readonly seq: number;
  readonly key?: string;
  /** Set before its tasks and entries are deleted, so that an interrupted deletion continues. */
  readonly deleting?: true;
}

export interface StoredClaim extends Actor {
  readonly fence: number;
  readonly lease_ms: number;
  readonly claimed_at: number;
  /** The column it was claimed in. */
  readonly from: string;
  readonly key?: string;
}

export interface StoredTask {
  readonly task_id: string;
  readonly title: string;
  readonly status: string;
  readonly description: string;
  readonly assignee: string;
  readonly deps: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly parent: string;
  readonly priority: number;
  readonly archived: boolean;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly done_at: number | null;
  /** Its first entry in the history, which orders tasks by age. */
  readonly first: number;
  /** Its last entry. */
  readonly seq: number;
  /** The last fence that was issued. */
  readonly fence: number;
  readonly claim: StoredClaim | null;
  readonly key?: string;
}

/** The fields whose changes a history entry shows. */
export const TRACKED = [
  'title',
  'status',
  'description',
  'assignee',
  'deps',
  'metadata',
  'parent',
  'priority',
  'archived',
] as const satisfies readonly (keyof StoredTask)[];

export type TrackedField = (typeof TRACKED)[number];

export type StoredEntry = Entry;

/** The changes of one request, written together or not at all. */
export interface PlanChange {
  readonly plan: StoredPlan | undefined;
  readonly tasks: ReadonlyMap<string, StoredTask | undefined>;
  readonly entries: readonly StoredEntry[];
  /** Assignees ('' for none) of tasks that may be claimed since this change. Not stored. */
  readonly ready: ReadonlySet<string>;
}

/** Returns true for equal JSON whose members have one order. */
export const same = (left: unknown, right: unknown): boolean =>
  left === right || JSON.stringify(left) === JSON.stringify(right);
