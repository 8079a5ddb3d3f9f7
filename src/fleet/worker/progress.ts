/**
 * The progress messages of a running task: never more than a few a second, and the newest is never missing.
 *
 * One for each task that runs.
 */
import type { Clock } from '../../base/timer-queue.ts';
import type { TaskProgress } from '../../protocol/fleet.ts';
import { fleetMessage } from '../messages/encode.ts';

/** Shortest time between two messages, in milliseconds; a message in between is replaced by the next one. */
const MIN_GAP_MS = 250;
const MAX_NOTE_CHARS = 512;

/** The members of a report. */
export type ProgressUpdate = Pick<TaskProgress, 'phase' | 'note' | 'percent'>;

export interface ProgressOptions {
  readonly taskId: string;
  readonly attempt: number;
  readonly send: (progress: TaskProgress) => void;
  /** Tokens so far; null = unknown. */
  readonly tokens: () => number | null;
  readonly clock: Clock;
}

export class Progress {
  readonly #options: ProgressOptions;
  #seq = 0;
  #last: ProgressUpdate = { phase: 'starting' };
  #lastAt = Number.NEGATIVE_INFINITY;
  #next: ProgressUpdate | undefined;
  #cancelTimer: (() => void) | undefined;
  #ended = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** Reports something soon. */
  report(update: ProgressUpdate): void {
    if (this.#ended) return;
    this.#next = update;
    if (this.#cancelTimer !== undefined) return;
    const { clock } = this.#options;
    const waitMs = this.#lastAt + MIN_GAP_MS - clock.monotonic();
    if (waitMs <= 0) this.#send(update);
    else this.#cancelTimer = clock.timer(() => this.#next !== undefined && this.#send(this.#next), waitMs);
  }

  /** Reports something that later messages must not replace. */
  reportNow(update: ProgressUpdate): void {
    if (!this.#ended) this.#send(update);
  }

  /** Repeats the latest phase, as a sign of liveness. */
  heartbeat(): void {
    if (this.#ended || this.#cancelTimer !== undefined) return;
    const { phase, percent } = this.#last;
    this.#send({ phase, ...(percent !== undefined && { percent }) });
  }

  end(): void {
    this.#ended = true;
    this.#cancelTimer?.();
  }

  #send(update: ProgressUpdate): void {
    const { taskId, attempt, send, tokens, clock } = this.#options;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#next = undefined;
    this.#last = update;
    this.#lastAt = clock.monotonic();
    this.#seq += 1;
    const { phase, note, percent } = update;
    send(
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
