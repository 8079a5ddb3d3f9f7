/**
 * Streams of output after a reply: that of a spawn, as A2E 1.0 has it, and those of `proc/read/req`, which start at any piece
 * and may have a window. Pieces that a reader has not got stay stored, so a slow reader makes the process wait.
 *
 * A lost link is replayed by the journal of the session, like every stream.
 */
import type { CallContext } from '../../host/context.ts';
import { asError } from '../../wire/errors.ts';
import { type Cursor, costOf } from './output.ts';
import type { Proc } from './process.ts';

export interface ReadOptions {
  /** Number of the first piece. */
  readonly from: number;
  /** False: only the output that is stored now. */
  readonly follow: boolean;
  /** Maximum characters, with 64 for each piece, that may be sent before they are acknowledged; 0: any number. */
  readonly window: number;
  /** True: exactly the events of A2E 1.0. */
  readonly plain: boolean;
}

interface Reader {
  readonly context: CallContext;
  readonly proc: Proc;
  readonly cursor: Cursor;
  /** Sent and not acknowledged: the number of each piece with its characters, oldest first. */
  readonly sent: { readonly seq: number; readonly size: number }[];
  unacknowledged: number;
  wake: () => void;
}

export class Readers {
  readonly #windows = new Map<string, Reader>();

  /** Sends the output of a process after the reply of a request that keeps its stream. */
  read(context: CallContext, name: string, proc: Proc, options: ReadOptions): void {
    const key = keyOf(name, context);
    const cursor = proc.output.open(options.from);
    const reader: Reader = { context, proc, cursor, sent: [], unacknowledged: 0, wake: () => {} };
    if (options.window > 0) this.#windows.set(key, reader);
    // A waiting reader must notice its end at once.
    context.signal.addEventListener('abort', () => reader.wake(), { once: true });
    const finish = (error?: unknown): void => {
      proc.output.close(cursor);
      if (options.window > 0) this.#windows.delete(key);
      if (!context.signal.aborted) context.finishStream(error === undefined ? undefined : asError(error));
    };
    context.afterReply(() => void follow(reader, options).then(() => finish(), finish));
  }

  /** Returns true for a name that no reader of the session has. */
  isFree(name: string, context: CallContext): boolean {
    return name !== '' && !this.#windows.has(keyOf(name, context));
  }

  /** Records the progress of a reader; returns false if it has ended. */
  acknowledge(name: string, seq: number, context: CallContext): boolean {
    const reader = this.#windows.get(keyOf(name, context));
    if (reader === undefined) return false;
    while (reader.sent[0] !== undefined && reader.sent[0].seq <= seq) {
      reader.unacknowledged -= reader.sent.shift()?.size ?? 0;
    }
    reader.wake();
    return true;
  }
}

const keyOf = (name: string, { session }: CallContext): string => `${session.id} ${name}`;

async function follow(reader: Reader, { from, follow: stays, window, plain }: ReadOptions): Promise<void> {
  const { context, proc, cursor } = reader;
  const { output } = proc;
  let next = cursor.next;
  const last = stays ? Number.POSITIVE_INFINITY : output.next;
  if (from < next && !plain)
    await context.emit('gap', { from, to: next - 1 }, { proc_id: proc.id, stream_type: 'stdout' });
  while (!context.signal.aborted) {
    const piece = next < last ? output.piece(next) : undefined;
    if (piece === undefined) {
      if (next >= last || output.ended) break;
      await woken(reader, output.more());
      continue;
    }
    if (window > 0 && reader.unacknowledged >= window) {
      await woken(reader);
      continue;
    }
    const { seq, text, stream } = piece;
    await context.emit('log', plain ? { text } : { text, seq }, { proc_id: proc.id, stream_type: stream });
    next++;
    // A lost link is replayed by the journal: sent pieces need not be stored here.
    output.advance(cursor, next);
    if (window > 0) {
      reader.sent.push({ seq, size: costOf(piece) });
      reader.unacknowledged += costOf(piece);
    }
  }
  if (context.signal.aborted || proc.end === undefined || next < output.next) return;
  const { code, signal, reason } = proc.end;
  const data = { code, ...(signal !== '' && { signal }), ...(reason !== 'exited' && { reason }) };
  await context.emit('status', data, { proc_id: proc.id, stream_type: code === 0 ? 'stdout' : 'stderr' });
}

/** Waits for an acknowledgement, the end of the stream, or another event. */
async function woken(reader: Reader, other?: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  reader.wake = resolve;
  if (reader.context.signal.aborted) return;
  await (other === undefined ? promise : Promise.race([promise, other]));
}
