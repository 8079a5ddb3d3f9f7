/**
 * A real worker in a separate folder, and the other end of its bus: its messages are recorded and can be waited for.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Log } from '../../../src/base/log.ts';
import type { DispatchOutcome, Lease, ReplyChannel } from '../../../src/fleet/bus/reply-channel.ts';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import type { Dispatched } from '../../../src/fleet/messages/decoded.ts';
import { dispatchMessage } from '../../../src/fleet/messages/encode.ts';
import { createWorker, type Worker } from '../../../src/fleet/worker/worker.ts';
import type { WorkerDeps, WorkerOptions } from '../../../src/fleet/worker/worker-options.ts';
import {
  type Envelope,
  FEATURES,
  type Feature,
  type FleetMessage,
  type TaskDispatch,
  type TaskResult,
} from '../../../src/protocol/fleet.ts';
import { scriptedExecutor } from './scripted-executor.ts';

export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** The other end. */
export class Desk implements ReplyChannel {
  readonly name: string;
  readonly features: ReadonlySet<Feature>;
  readonly told: FleetMessage[] = [];
  /** Results that were taken, in order; one may come twice. */
  readonly results: TaskResult[] = [];
  /** Set: results are not taken. */
  refuses = false;
  readonly #waiting = new Set<() => void>();

  constructor(name = 'desk', features: readonly Feature[] = FEATURES) {
    this.name = name;
    this.features = new Set(features);
  }

  send(message: FleetMessage): void {
    this.told.push(message);
    this.#changed();
  }

  async deliverResult(result: TaskResult): Promise<void> {
    if (this.refuses) throw new Error('not now');
    this.results.push(result);
    this.#changed();
  }

  /** Returns the result of a task, once it is there. */
  result(taskId: string): Promise<TaskResult> {
    return this.until(() => this.results.find(({ task_id }) => task_id === taskId), `the result of ${taskId}`);
  }

  /** Returns the first message of a type that fits. */
  message<T extends FleetMessage['type']>(
    type: T,
    fits: (message: Extract<FleetMessage, { type: T }>) => boolean = () => true,
  ): Promise<Extract<FleetMessage, { type: T }>> {
    const found = () =>
      this.told.find((one): one is Extract<FleetMessage, { type: T }> => one.type === type && fits(one as never));
    return this.until(found, type);
  }

  /** Returns the result of `find`, once it has one. Rejects when that takes far too long. */
  async until<T>(find: () => T | undefined, what: string): Promise<T> {
    const give = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (give.aborted) throw new Error(`${what} did not come`);
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve);
        give.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  #changed(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

export type Given = Partial<TaskDispatch['task']> &
  NonNullable<TaskDispatch['requirements']> & {
    readonly brief?: string;
    readonly deadline?: string;
    readonly envelope?: Envelope;
  };

/** Makes a dispatch as a bus hands it over. The task reads by default, so that no repository is needed. */
export function dispatch(task_id: string, given: Given = {}): Dispatched {
  const { brief = 'Do it.', deadline, envelope, required_mcp, required_capabilities, ...rest } = given;
  const { min_tier, min_context_window, access = 'read', worktree, ...task } = rest;
  const requirements = { required_mcp, required_capabilities, min_tier, min_context_window, access, worktree };
  const message = dispatchMessage(
    { task: { task_id, ...task }, requirements, ...(deadline !== undefined && { deadline }), brief },
    envelope,
  );
  const decoded = decodeValue(JSON.parse(JSON.stringify(message)));
  if (!decoded.valid) throw new Error(JSON.stringify(decoded.errors));
  return decoded.message as Dispatched;
}

export interface Bench {
  readonly worker: Worker;
  readonly desk: Desk;
  readonly home: string;
  readonly cwd: string;
  /** Hands a dispatch over and begins an accepted one, as a bus does. */
  give(dispatch: Dispatched, lease?: Lease): Promise<DispatchOutcome>;
  /** Resolves when nothing is taken any more. */
  idle(): Promise<void>;
  /** Hands a dispatch over as `give` does, and returns its result. */
  do(dispatch: Dispatched, lease?: Lease): Promise<TaskResult>;
}

/** Longest wait for anything, in milliseconds: far above the need of a busy machine. */
const PATIENCE_MS = 20_000;
/** Soon where a test waits for it, far away where nothing is to run out. */
const TIMING: WorkerDeps = { debounceMs: 10, resendMs: 10, probeMs: PATIENCE_MS, decideMs: PATIENCE_MS };

export const LEASE: Lease = { fence: 1, ttlS: 45 };

export async function folder(test: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handfast-worker-'));
  test.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Starts and attaches a worker, which is stopped after the test. `timing` gives the intervals that matter. */
export async function bench(
  test: TestContext,
  options: Partial<WorkerOptions> = {},
  timing: WorkerDeps = {},
): Promise<Bench> {
  const top = options.home === undefined || options.cwd === undefined ? await folder(test) : '';
  const home = options.home ?? join(top, 'home');
  const cwd = options.cwd ?? top;
  const worker = await createWorker(
    { agentId: 'w-1', executor: scriptedExecutor(), tools: ['terminal', 'file'], log: silent, ...options, cwd, home },
    { ...TIMING, ...timing },
  );
  test.after(() => worker.close());
  const desk = new Desk();
  worker.attach(desk);
  await worker.start();
  const give: Bench['give'] = async (message, lease = LEASE) => {
    const reception = await worker.receive(message, desk);
    if (reception.kind === 'accepted') reception.start(lease);
    return reception;
  };
  return {
    worker,
    desk,
    home,
    cwd,
    give,
    async idle() {
      for (const give = AbortSignal.timeout(PATIENCE_MS); worker.activeTasks > 0; await turn()) give.throwIfAborted();
    },
    async do(message, lease) {
      const reception = await give(message, lease);
      if (reception.kind === 'refused' || reception.kind === 'replay') return reception.result;
      return desk.result(message.task_id);
    },
  };
}
