/**
 * Which reply belongs to which task, for receivers that name no task in their replies: by the context, in which one turn
 * runs at a time. Tasks that have ended are remembered a while, because a reply may be sent again.
 *
 * Used by `fleet/bus/http/peer.ts` and `inbound.ts`, one for each peer.
 */
import type { ReplySchema, TaskDispatch } from '../../../protocol/fleet.ts';
import { evictOldest } from '../evict-oldest.ts';
import type { DispatchMode } from '../peer.ts';

export interface OpenTask {
  readonly taskId: string;
  readonly attempt: number;
  readonly contextId: string;
  /** What the reply was asked to be. */
  readonly replySchema: ReplySchema;
  /** Its result has been heard. */
  over: boolean;
}

/** Tasks that are remembered at most, ended ones included. */
const MOST = 10_000;

export class OpenTasks {
  readonly #byTask = new Map<string, OpenTask>();
  readonly #byContext = new Map<string, OpenTask>();

  open(dispatch: TaskDispatch, contextId: string, mode: DispatchMode): OpenTask {
    const { task, envelope } = dispatch;
    // A peer that was sent the bare brief was asked for nothing but words.
    const replySchema = mode === 'plain' ? 'prose' : (task.reply_schema ?? 'structured');
    return this.add({ taskId: task.task_id, attempt: envelope?.attempt ?? 1, contextId, replySchema });
  }

  add(task: Omit<OpenTask, 'over'>): OpenTask {
    const open = { ...task, over: false };
    this.#byTask.delete(task.taskId);
    this.#byTask.set(task.taskId, open);
    this.#byContext.set(task.contextId, open);
    if (this.#byTask.size > MOST) this.#forgetSome();
    return open;
  }

  get(taskId: string): OpenTask | undefined {
    return this.#byTask.get(taskId);
  }

  inContext(contextId: string): OpenTask | undefined {
    return this.#byContext.get(contextId);
  }

  /** Its result has been heard; it stays known in case that comes again. */
  ended(open: OpenTask): void {
    open.over = true;
  }

  /** The receiver does not have it. */
  close(open: OpenTask): void {
    open.over = true;
    if (this.#byTask.get(open.taskId) === open) this.#byTask.delete(open.taskId);
    if (this.#byContext.get(open.contextId) === open) this.#byContext.delete(open.contextId);
  }

  /** Those that have ended first, the oldest first. */
  #forgetSome(): void {
    evictOldest(this.#byTask, MOST, (taskId) => this.#byTask.get(taskId)?.over === true);
    for (const [contextId, open] of this.#byContext) {
      if (this.#byTask.get(open.taskId) !== open) this.#byContext.delete(contextId);
    }
  }
}
