/**
 * The operator's side of a fleet: the `fleet.*` methods of session RPC as typed functions over a control client.
 *
 * Programs get it from `handfast/fleet`.
 */
import { SharedSlots } from '../base/shared-slots.ts';
import type { ControlClient } from '../control-client/control.ts';
import type { BusOutage } from '../fleet/bus/peer.ts';
import type { WorkerView } from '../fleet/orchestrator/orchestrator-options.ts';
import type { TaskQuery, TaskRecord, TaskSpec } from '../fleet/orchestrator/task.ts';
import type { Explanation } from '../fleet/route/profile.ts';
import * as methods from '../protocol/fleet-rpc.generated.ts';
import type { RpcMethod } from '../protocol/rpc-reader.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';

/** Longest wait of one request, milliseconds, and the shortest, where more tasks are awaited than requests may wait. */
const WAIT_MS = 25_000;
const SHORT_WAIT_MS = 1_000;
/** Requests that wait at once. */
const MAX_WAITING = 1_000;
/** Most tasks of one request. */
const PAGE = 1000;
/** Time for which a lost fleet is tried again, and the interval, milliseconds. */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 250;

/** One event of a task. */
export interface TaskEvent {
  readonly cursor: number;
  /** Epoch milliseconds. */
  readonly ts: number;
  readonly kind: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface FleetStatus {
  readonly name: string;
  readonly buses: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

export interface FleetClientOptions {
  /** Called when the fleet is lost, and a call that only reads waits until it is back. */
  readonly onAway?: (error: HandfastError) => void;
}

/**
 * Every method fails as the orchestrator does, and as the control client does. Those that only read continue when the
 * fleet is available again within half a minute.
 */
export class FleetClient {
  readonly #control: ControlClient;
  readonly #onAway: (error: HandfastError) => void;
  readonly #waits = new SharedSlots('waits', {
    total: MAX_WAITING,
    perOwner: MAX_WAITING,
    queuePerOwner: Number.POSITIVE_INFINITY,
  });
  /** Callers that wait. */
  #waiting = 0;

  /** Fails with `dialect_not_served` when the server runs no orchestrator. */
  constructor(control: ControlClient, { onAway = () => {} }: FleetClientOptions = {}) {
    if (!control.server.methods.includes(methods.fleetStatus.name)) {
      throw fail(
        'dialect_not_served',
        `${control.server.server_name} runs no fleet; start one with: handfast fleet up`,
      );
    }
    this.#control = control;
    this.#onAway = onAway;
  }

  async status(): Promise<FleetStatus> {
    return this.#read(methods.fleetStatus, {});
  }

  /** Buses of the fleet that carry nothing now; empty: all work. */
  async down(): Promise<readonly BusOutage[]> {
    return (await this.#read(methods.fleetWorkers, {})).down ?? [];
  }

  async workers(): Promise<readonly WorkerView[]> {
    return (await this.#read(methods.fleetWorkers, {})).workers as unknown as readonly WorkerView[];
  }

  async drain(peerId: string, on = true): Promise<void> {
    await this.#call(methods.workerDrain, { peer_id: peerId, on });
  }

  async submit(spec: TaskSpec): Promise<TaskRecord> {
    return (await this.#call(methods.taskSubmit, { spec })).task;
  }

  async submitBatch(specs: readonly TaskSpec[]): Promise<readonly TaskRecord[]> {
    return (await this.#call(methods.taskSubmitBatch, { specs })).tasks;
  }

  async list(query: TaskQuery = {}): Promise<readonly TaskRecord[]> {
    return (await this.#read(methods.taskList, query)).tasks;
  }

  /** Returns tasks for which `wanted` returns true, newest first, `limit` of them (default 50) of any number. */
  async select(
    { limit = 50, ...query }: TaskQuery,
    wanted: (task: TaskRecord) => boolean = () => true,
  ): Promise<readonly TaskRecord[]> {
    const found: TaskRecord[] = [];
    let { before } = query;
    for (;;) {
      const size = Math.min(PAGE, Math.max(50, limit - found.length));
      const page = await this.list({ ...query, before, limit: size });
      for (const task of page) if (found.length < limit && wanted(task)) found.push(task);
      before = page.at(-1)?.number;
      if (page.length < size || found.length >= limit) return found;
    }
  }

  async get(taskId: string): Promise<TaskRecord> {
    return (await this.#read(methods.taskGet, { task_id: taskId })).task;
  }

  async cancel(taskId: string, reason?: string): Promise<TaskRecord> {
    return (await this.#call(methods.taskCancel, { task_id: taskId, reason })).task;
  }

  async retry(taskId: string, worker?: string): Promise<TaskRecord> {
    return (await this.#call(methods.taskRetry, { task_id: taskId, worker })).task;
  }

  async drop(taskId: string, reason?: string): Promise<TaskRecord> {
    return (await this.#call(methods.taskDrop, { task_id: taskId, reason })).task;
  }

  async steer(taskId: string, text: string): Promise<void> {
    await this.#call(methods.taskSteer, { task_id: taskId, text });
  }

  async answer(
    taskId: string,
    questionId: string,
    answer: {
      readonly allowed: boolean;
      readonly content?: Readonly<Record<string, unknown>>;
      readonly reason?: string;
    },
  ): Promise<void> {
    await this.#call(methods.taskAnswer, { task_id: taskId, question_id: questionId, ...answer });
  }

  /** Returns the route that a task would get now. */
  async explain(task: string | TaskSpec): Promise<{ readonly explanation: Explanation; readonly table: string }> {
    return this.#read(methods.routeExplain, typeof task === 'string' ? { task_id: task } : { spec: task });
  }

  /** Waits until a task has ended or was parked for an operator. */
  async ended(taskId: string, signal?: AbortSignal): Promise<TaskRecord> {
    for (;;) {
      const { ended, task } = await this.#wait(
        (wait_ms) => this.#read(methods.taskResult, { task_id: taskId, wait_ms }, signal),
        signal,
      );
      if (ended) return task;
    }
  }

  /** Yields the events of a task after `after`, then later ones, until it has ended or was parked. */
  async *follow(
    taskId: string,
    { after = 0, signal }: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<TaskEvent | { readonly kind: 'gap'; readonly from: number; readonly to: number }, TaskRecord> {
    let cursor = after;
    let ended: TaskRecord | undefined;
    for (;;) {
      const params = { task_id: taskId, after: cursor };
      const page = await this.#wait(
        (wait_ms) => this.#read(methods.taskFollow, { ...params, wait_ms }, signal, ended === undefined),
        signal,
      ).catch((thrown: unknown) => {
        // Only the result of its verification could still follow.
        if (ended === undefined || !isAway(asError(thrown))) throw thrown;
        return undefined;
      });
      if (page === undefined) return ended as TaskRecord;
      if (page.gap !== null) yield { kind: 'gap', ...page.gap };
      yield* page.entries as readonly TaskEvent[];
      cursor = page.last;
      const { task } = page;
      if (page.complete) return task;
      if (task.ended_at !== null) ended = task;
    }
  }

  /** Makes a request that waits at the fleet. Where more callers wait than requests may, they take turns. */
  async #wait<Result>(work: (waitMs: number) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    this.#waiting += 1;
    try {
      const release = await this.#waits.acquire('', signal ?? NEVER);
      try {
        const share = WAIT_MS * (MAX_WAITING / Math.max(MAX_WAITING, this.#waiting));
        return await work(Math.max(SHORT_WAIT_MS, Math.floor(share)));
      } finally {
        release();
      }
    } finally {
      this.#waiting -= 1;
    }
  }

  /**
   * Makes a call that changes nothing, so that it is repeated when the fleet was lost before its reply; unless not
   * `patient`.
   */
  async #read<Result>(
    method: RpcMethod<object, Result>,
    params: object,
    signal?: AbortSignal,
    patient = true,
  ): Promise<Result> {
    let awaySince: number | undefined;
    for (;;) {
      try {
        return await this.#call(method, params, signal);
      } catch (thrown) {
        const error = asError(thrown);
        if (!patient || !isAway(error) || this.#control.state === 'closed' || signal?.aborted) throw error;
        if (awaySince === undefined) this.#onAway(error);
        awaySince ??= performance.now();
        if (performance.now() - awaySince > PATIENCE_MS) throw error;
        // A fleet that is stopping answers until its last link is closed.
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  async #call<Result>({ name }: RpcMethod<object, Result>, params: object, signal?: AbortSignal): Promise<Result> {
    try {
      return (await this.#control.call(name, params, { signal })) as Result;
    } catch (error) {
      if (error instanceof HandfastError && error.code === 'unauthorized') {
        throw fail(
          'unauthorized',
          `${error.message}; the fleet is operated with the token of its user, or of an administrator`,
          error.detail,
          error,
        );
      }
      throw error;
    }
  }
}

const NEVER = new AbortController().signal;
const isAway = ({ code }: HandfastError): boolean => code === 'interrupted' || code === 'connection_lost';
