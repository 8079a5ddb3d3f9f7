/**
 * A task that this agent has claimed: renews its lease, sends its fence with every change, and reports the loss of the claim.
 *
 * The lease is measured on this process's monotonic clock from before the request, so it ends here before it ends at the host.
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import { planShow, taskRelease, taskRenew, taskUpdate } from './messages.ts';
import * as replies from './planning.replies.generated.ts';
import type { Task } from './planning.schema.ts';
import { accepted, changeBody, type TaskChange } from './task-change.ts';

const renewTask = answered(taskRenew, replies.TaskRenewResp);
const releaseTask = answered(taskRelease, replies.TaskReleaseResp);
const updateTask = answered(taskUpdate, replies.TaskUpdateResp);
const showPlan = answered(planShow, replies.PlanShowResp);

export interface ClaimedTaskDeps {
  readonly agent: AgentSession;
  readonly task: Task;
  readonly fence: number;
  readonly leaseMs: number;
  /** Start of the lease, monotonic milliseconds. */
  readonly startedAt: number;
  readonly renew: boolean;
}

export class ClaimedTask implements AsyncDisposable {
  /** Sent with every change under the claim. */
  readonly fence: number;
  readonly #deps: ClaimedTaskDeps;
  readonly #lost = new AbortController();
  #task: Task;
  #leaseMs: number;
  #expiresAt: number;
  #timer: object | undefined;
  #ended = false;

  constructor(deps: ClaimedTaskDeps) {
    this.#deps = deps;
    this.fence = deps.fence;
    this.#task = deps.task;
    this.#leaseMs = deps.leaseMs;
    this.#expiresAt = deps.startedAt + deps.leaseMs;
    this.#schedule();
  }

  /** The task at the time of the last reply. */
  get task(): Task {
    return this.#task;
  }

  get id(): string {
    return this.#task.task_id;
  }

  /** Aborts when the claim is lost: stop working on the task. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Milliseconds until the lease ends unless it is renewed. */
  get expiresInMs(): number {
    return Math.max(0, this.#expiresAt - performance.now());
  }

  /** Starts the lease again. Rejects with `planning.claim_lost`. */
  async renew(leaseMs?: number, call: CallOptions = {}): Promise<void> {
    const askedAt = performance.now();
    const body = { ...this.#address(), ...(leaseMs !== undefined && { lease_ms: leaseMs }) };
    const { lease_ms } = await this.#guarded(this.#deps.agent.calls.call(renewTask, body, call));
    this.#leaseMs = lease_ms;
    this.#expiresAt = askedAt + lease_ms;
    this.#schedule();
  }

  /** Changes the task under the claim. Rejects with `planning.claim_lost` and with the errors of the client's `update`. */
  async update(change: Omit<TaskChange, 'fence'>, call: CallOptions = {}): Promise<Task> {
    const body = { ...this.#address(), ...changeBody(change) };
    const { task } = await this.#guarded(this.#deps.agent.calls.call(updateTask, body, call, accepted));
    if (task !== undefined) this.#task = task;
    if (this.#task.claim?.fence !== this.fence) this.#end();
    return this.#task;
  }

  /** Ends the task in the first column that ends tasks, or in the named one; the claim ends with it. */
  async done(comment = '', status?: string): Promise<Task> {
    const column = status ?? (await this.#doneColumn());
    return this.update({ status: column, ...(comment !== '' && { comment }) });
  }

  /** Releases the claim. The task returns to the column it was claimed in. */
  async release(comment = '', call: CallOptions = {}): Promise<void> {
    const body = { ...this.#address(), ...(comment !== '' && { comment }) };
    await this.#guarded(this.#deps.agent.calls.call(releaseTask, body, call));
    this.#end();
  }

  /** Releases the claim if it is in force, and does not reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) await this.release().catch(() => {});
    this.#end();
  }

  async #doneColumn(): Promise<string> {
    const { plan } = await this.#deps.agent.calls.call(showPlan, { plan_id: this.#task.plan_id });
    return plan.rules?.done[0] ?? 'done';
  }

  #address() {
    return { plan_id: this.#task.plan_id, task_id: this.id, fence: this.fence };
  }

  async #guarded<Result>(call: Promise<Result>): Promise<Result> {
    try {
      return await call;
    } catch (thrown) {
      const error = asError(thrown);
      if (error.code === 'planning.claim_lost') this.#lose(error);
      throw error;
    }
  }

  /** Renews after a third of the lease; without a reply, again until it has ended. */
  #schedule(): void {
    clearTimeout(this.#timer as NodeJS.Timeout | undefined);
    if (this.#ended) return;
    const left = this.expiresInMs;
    const ms = this.#deps.renew ? Math.min(left, this.#leaseMs / 3) : left;
    const timer: { unref?: () => void } = setTimeout(() => this.#due(), ms);
    this.#timer = timer;
    // In a browser, timers are numbers.
    timer.unref?.();
  }

  #due(): void {
    if (this.expiresInMs === 0) {
      this.#lose(failure('claim_lost', `the lease of the task ${this.id} ended`, { fence: this.fence }));
    } else if (this.#deps.renew) {
      const timeoutMs = Math.max(1, Math.ceil(this.expiresInMs));
      this.renew(undefined, { timeoutMs }).catch(() => this.#schedule());
    } else this.#schedule();
  }

  #lose(error: HandfastError): void {
    this.#end();
    this.#lost.abort(error);
  }

  #end(): void {
    this.#ended = true;
    clearTimeout(this.#timer as NodeJS.Timeout | undefined);
  }
}
