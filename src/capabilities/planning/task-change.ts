/** Converts the client's changes of a task to the form of a request, and the refusals of A2E 1.0 to errors. */
import { HandfastError } from '../../wire/errors.ts';
import type { Refusal } from './planning.schema.ts';

export interface TaskOptions {
  readonly status?: string;
  readonly description?: string;
  readonly assignee?: string;
  /** Tasks that must be done first. */
  readonly deps?: readonly string[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The task it is a part of. */
  readonly parent?: string;
  /** Tasks with higher values are claimed first. Default 0. */
  readonly priority?: number;
  /** Idempotency key within the plan. */
  readonly key?: string;
}

export interface TaskChange extends Omit<TaskOptions, 'key'> {
  readonly title?: string;
  readonly addDeps?: readonly string[];
  readonly removeDeps?: readonly string[];
  /** Fields to empty. */
  readonly clear?: readonly ('assignee' | 'deps' | 'description' | 'parent')[];
  /** A comment on the change. */
  readonly comment?: string;
  /** Fails with `planning.conflict` unless this is the present revision. */
  readonly ifRevision?: number;
  /** The fence of the claim the change is made under. */
  readonly fence?: number;
  readonly force?: boolean;
}

/** Returns the reply, or throws the error of a refusal. */
export function accepted<Reply extends { readonly success: boolean; readonly error?: Refusal }>(reply: Reply): Reply {
  if (reply.success) return reply;
  const { code = 'planning.refused', message = 'the host refused it', detail = {} } = reply.error ?? {};
  throw new HandfastError(code, message, { detail, capability: 'planning' });
}

/** Returns the fields of an update on the wire. */
export function changeBody(change: TaskChange) {
  const { addDeps, removeDeps, clear, deps, ifRevision, ...fields } = change;
  return {
    ...fields,
    ...(deps && { deps: [...deps] }),
    ...(addDeps && { add_deps: [...addDeps] }),
    ...(removeDeps && { remove_deps: [...removeDeps] }),
    ...(clear && { clear: [...clear] }),
    ...(ifRevision !== undefined && { if_revision: ifRevision }),
  };
}
