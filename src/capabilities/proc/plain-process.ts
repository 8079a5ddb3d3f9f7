/**
 * A process of a host with A2E 1.0 alone: its output arrives as events of the request that started it, whether anything reads
 * it or not, and is stored here, because such a host has no request for it (`proc/read/req`).
 */
import type { CallEvent } from '../../connection/call.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import { costOf } from './output.ts';
import type { OutputOptions, OutputPiece, ProcessExit } from './read-output.ts';

/** Maximum stored characters of the output, with 64 for each piece; the oldest are dropped. */
const STORED = 1024 * 1024;

/** The signals of A2E 1.0 by their numbers: a process that a signal ended has its negative as exit code. */
const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

export class PlainProcess {
  readonly argv: readonly string[];
  readonly pid: number;
  readonly startedAt = Date.now() / 1000;
  exit: ProcessExit | undefined;
  readonly #pieces: { piece: Omit<OutputPiece, 'missed'>; cost: number }[] = [];
  #stored = 0;
  /** Number of the next piece, and total number of characters. */
  #next = 0;
  #written = 0;
  #failed: HandfastError | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(argv: readonly string[], pid: number, events: AsyncIterable<CallEvent>) {
    this.argv = argv;
    this.pid = pid;
    void this.#read(events);
  }

  /** The stored part of its output: numbers of the oldest and the next piece, and the characters of all. */
  get stored(): { readonly first: number; readonly next: number; readonly bytes: number; readonly paused: boolean } {
    return { first: this.#next - this.#pieces.length, next: this.#next, bytes: this.#written, paused: false };
  }

  /** Records that a signal ended it; hosts may send no event for that. */
  killed(signal: string): void {
    this.#end({ code: -(SIGNALS[signal] ?? 1), signal, reason: 'killed' });
  }

  /** Yields its output, as that of every process. Rejects with the error of a lost link: output meanwhile is lost, too. */
  async *output({
    from = 0,
    follow = true,
    signal,
  }: OutputOptions): AsyncGenerator<OutputPiece, ProcessExit | undefined> {
    const aborted = Promise.withResolvers<void>();
    signal?.addEventListener('abort', () => aborted.resolve(), { once: true });
    for (let at = from; ; ) {
      if (signal?.aborted) throw fail('cancelled', 'the reading was cancelled');
      const { first } = this.stored;
      const missed = Math.max(0, first - at);
      at += missed;
      const found = this.#pieces[at - first]?.piece;
      if (found !== undefined) {
        at++;
        yield { ...found, ...(missed > 0 && { missed }) };
      } else if (this.exit !== undefined || !follow) return this.exit;
      else if (this.#failed !== undefined) throw this.#failed;
      else await Promise.race([this.#changed.promise, aborted.promise]);
    }
  }

  async #read(events: AsyncIterable<CallEvent>): Promise<void> {
    try {
      for await (const { data, fields } of events) {
        const { text, code } = data as { text?: unknown; code?: unknown };
        if (typeof text === 'string') this.#store(text, fields?.stream_type === 'stderr' ? 'stderr' : 'stdout');
        if (typeof code === 'number') return this.#end({ code, signal: '', reason: code < 0 ? 'signal' : 'exited' });
      }
      this.#failed = fail('connection_lost', 'the host sends no more output of this process');
    } catch (thrown) {
      this.#failed = asError(thrown);
    }
    this.#wake();
  }

  #store(text: string, stream: 'stdout' | 'stderr'): void {
    const cost = costOf({ text });
    this.#pieces.push({ piece: { stream, text, seq: this.#next++ }, cost });
    this.#stored += cost;
    this.#written += text.length;
    while (this.#stored > STORED && this.#pieces.length > 1) this.#stored -= this.#pieces.shift()?.cost ?? 0;
    this.#wake();
  }

  #end(exit: ProcessExit): void {
    this.exit ??= exit;
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
