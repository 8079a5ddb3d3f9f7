/**
 * What a task says while it runs: never more than a few messages a second, and the newest is never missing.
 *
 * One for each task that runs; called by `task-run.ts`.
 */
import type { Clock } from '../../base/timer-queue.ts';
import type { TaskProgress } from '../../protocol/fleet.ts';
import { fleetMessage } from '../messages/encode.ts';

/** Shortest time between two messages; what comes in between is replaced by what comes after it. */
const MIN_GAP_MS = 250;
const MAX_NOTE_CHARS = 512;

/** What is told. */
export type Told = Pick<TaskProgress, 'phase' | 'note' | 'percent'>;

export interface ProgressOptions {
  readonly taskId: string;
  readonly attempt: number;
  readonly tell: (progress: TaskProgress) => void;
  /** Tokens so far; null = unknown. */
  readonly tokens: () => number | null;
  readonly clock: Clock;
}

export class Progress {
  readonly #options: ProgressOptions;
  #seq = 0;
  #last: Told = { phase: 'starting' };
  #lastAt = Number.NEGATIVE_INFINITY;
  #next: Told | undefined;
  #cancelTimer: (() => void) | undefined;
  #over = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** Something to be told, soon. */
  say(told: Told): void {
    if (this.#over) return;
    this.#next = told;
    if (this.#cancelTimer !== undefined) return;
    const { clock } = this.#options;
    const waitMs = this.#lastAt + MIN_GAP_MS - clock.monotonic();
    if (waitMs <= 0) this.#send(told);
    else this.#cancelTimer = clock.timer(() => this.#next !== undefined && this.#send(this.#next), waitMs);
  }

  /** Something that must not be replaced by what comes after it. */
  sayNow(told: Told): void {
    if (!this.#over) this.#send(told);
  }

  /** A sign of life. */
  alive(): void {
    if (this.#over || this.#cancelTimer !== undefined) return;
    const { phase, percent } = this.#last;
    this.#send({ phase, ...(percent !== undefined && { percent }) });
  }

  end(): void {
    this.#over = true;
    this.#cancelTimer?.();
  }

  #send(told: Told): void {
    const { taskId, attempt, tell, tokens, clock } = this.#options;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#next = undefined;
    this.#last = told;
    this.#lastAt = clock.monotonic();
    this.#seq += 1;
    const { phase, note, percent } = told;
    tell(
      fleetMessage(
        'TASK_PROGRESS',
        {
          task_id: taskId,
          seq: this.#seq,
          phase,
          ...(note !== undefined && { note: note.slice(0, MAX_NOTE_CHARS) }),
          ...(percent !== undefined && { percent: Math.min(100, Math.max(0, percent)) }),
          tokens_so_far: tokens(),
        },
        { attempt },
      ),
    );
  }
}
