/**
 * The person that handles parked tasks some minutes after they were parked: mostly by retrying, sometimes by dropping
 * them.
 */
import type { Orchestrator } from '../src/fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord } from '../src/fleet/orchestrator/task.ts';
import type { Checks } from './checks.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface OperatorOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly checks: Checks;
  /** Returns the orchestrator; undefined while it is down. */
  readonly orchestrator: () => Orchestrator | undefined;
}

/** An operator looks at a parked task after so long, on average. */
const LOOKS_MS = 4 * 60_000;
const AGAIN_MS = 5000;
/** Attempts after which a task is dropped. */
const MAX_ATTEMPTS = 4;
const RETRIES = 0.8;

export class Operator {
  readonly #options: OperatorOptions;
  /** Tasks that will be looked at. */
  readonly #planned = new Set<string>();

  constructor(options: OperatorOptions) {
    this.#options = options;
  }

  /** Handles a row that was written. */
  looksAt({ task_id, parked }: TaskRecord): void {
    if (!parked || this.#planned.has(task_id)) return;
    const { time, random } = this.#options;
    this.#planned.add(task_id);
    time.after(random.around(LOOKS_MS), () => this.#decide(task_id, random.chance(RETRIES)));
  }

  #decide(taskId: string, retry: boolean): void {
    const { time, checks } = this.#options;
    const orchestrator = this.#options.orchestrator();
    const record = checks.record(taskId);
    this.#planned.delete(taskId);
    if (record === undefined || !record.parked) return;
    this.#planned.add(taskId);
    if (orchestrator === undefined) return void time.after(AGAIN_MS, () => this.#decide(taskId, retry));
    const done = (): void => {
      this.#planned.delete(taskId);
      const now = checks.record(taskId);
      if (now !== undefined) this.looksAt(now);
    };
    if (retry && record.attempt < MAX_ATTEMPTS) {
      checks.operatorRetries(taskId);
      orchestrator.retry(taskId).then(done, done);
    } else orchestrator.drop(taskId).then(done, done);
    // A process that dies never answers.
    time.after(AGAIN_MS, done);
  }
}
