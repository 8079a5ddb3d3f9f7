/**
 * One turn from its prompt to what came of it: the prompt is read, the backend asked whether it could run, a slot waited
 * for, the context looked after, and the backend run. Whoever it belongs to writes the end (`turn-end.ts`).
 *
 * Made by `session-turns.ts`.
 * @see docs/protocol/session-rpc.md#turns
 */

import { MAX_DELAY_MS } from '../../../base/deadlines.ts';
import { orAborted } from '../../../base/race.ts';
import type { Approval, ImageReference, SessionSettings, StopReason } from '../../../protocol/session-types.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Backend } from '../../contract/backend.ts';
import type { AcceptedPrompt, ReadPrompt } from '../../rounds/prompt.ts';
import type { OpenSession } from '../log/open-session.ts';
import { DRAFTING, type LiveTurn } from './live-turn.ts';
import type { Release, TurnSlots } from './turn-slots.ts';

/** Times a turn is compressed and gone on with when the provider says it is too long. */
const MAX_OVERFLOWS = 2;

export const COMPRESSING = 'compressing context...';

/** What came of a turn. */
export type TurnResult =
  | { readonly kind: 'completed'; readonly stopReason: StopReason }
  | { readonly kind: 'interrupted'; readonly stopReason: StopReason }
  /** `asked`: a model may have been asked; false when the turn failed before. */
  | { readonly kind: 'failed'; readonly error: HandfastError; readonly asked: boolean };

export interface TurnRunDeps {
  /** Reads the images of a prompt. Fails with what is shown to the user. */
  readonly readPrompt: (
    prompt: AcceptedPrompt,
    places: { readonly cwd: string; readonly roots: readonly string[] },
  ) => Promise<ReadPrompt>;
  /** Folders beside that of the session that images may be read from. */
  readonly imageRoots: readonly string[];
  /** The skills a prompt names. */
  readonly skillsFor: (prompt: string, cwd: string) => Promise<readonly { readonly name: string }[]>;
  readonly slots: TurnSlots;
  /** Time a turn may take where its settings say nothing, in milliseconds. The time users take to answer does not count. */
  readonly turnTimeoutMs: number;
}

export class TurnRun {
  readonly #session: OpenSession;
  readonly #turn: LiveTurn;
  readonly #backend: Backend;
  readonly #parts: TurnRunDeps;
  readonly #checked = Promise.withResolvers<void>();
  readonly #onTimeout: () => void;
  #slot: Release | undefined;
  /** The slot that is waited for after an answer of the user. */
  #returning: Promise<void> | undefined;
  /** Questions to the user that wait. */
  #asking = 0;
  #leftMs: number;
  #countingSince = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `onTimeout` is called once when the turn has taken its time. */
  constructor(session: OpenSession, turn: LiveTurn, backend: Backend, parts: TurnRunDeps, onTimeout: () => void) {
    this.#session = session;
    this.#turn = turn;
    this.#backend = backend;
    this.#parts = parts;
    this.#onTimeout = onTimeout;
    this.#leftMs = turn.settings.turnTimeoutMs ?? parts.turnTimeoutMs;
    turn.whileAsking = (answer) => this.#whileAsking(answer);
  }

  /** Resolves when it is known that the turn can run, or when it is over. */
  get checked(): Promise<void> {
    return this.#checked.promise;
  }

  /** Runs a new turn. Never rejects. */
  run(prompt: { readonly text: string; readonly images: readonly ImageReference[] }): Promise<TurnResult> {
    return this.#guarded(async () => {
      const read = await this.#prepare(prompt);
      await this.#takeSlot();
      await this.#makeRoom();
      this.#thinking();
      this.#turn.history = [...this.#session.record.history];
      this.#turn.prompt = read;
      this.#session.say('user', read.text, this.#turn.id, { images: read.images });
      const images = read.images.length > 0 ? { images: read.images } : {};
      this.#session.remember([{ role: 'user', turn: this.#turn.id, text: read.text, ...images }]);
      return this.#askBackend();
    });
  }

  /** Goes on with a turn of an earlier process. Never rejects. */
  goOn(): Promise<TurnResult> {
    return this.#guarded(async () => {
      const { record } = this.#session;
      const isOurs = ({ turn }: { readonly turn: string }) => turn === this.#turn.id;
      const prompt = record.history.find((item) => item.role === 'user' && isOurs(item));
      this.#turn.history = record.history.filter((item) => !isOurs(item));
      this.#turn.prompt = {
        text: prompt?.role === 'user' ? prompt.text : (record.turn?.text ?? ''),
        images: (prompt?.role === 'user' ? prompt.images : undefined) ?? [],
      };
      this.#turn.continued = true;
      await this.#unlessAborted(this.#backend.preflight(this.#turn.settings));
      this.#checked.resolve();
      await this.#takeSlot();
      return this.#askBackend();
    });
  }

  async #guarded(work: () => Promise<TurnResult>): Promise<TurnResult> {
    try {
      return await work();
    } catch (thrown) {
      return { kind: 'failed', error: asError(thrown), asked: this.#session.folded.running?.prompted ?? false };
    } finally {
      this.#checked.resolve();
      this.stop();
    }
  }

  /** Gives back what the turn holds. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = 0;
    this.#checked.resolve();
    this.#slot?.();
  }

  async #prepare(prompt: AcceptedPrompt): Promise<ReadPrompt> {
    const { readPrompt, imageRoots, skillsFor } = this.#parts;
    const { cwd, settings, id } = this.#turn;
    const read = await this.#unlessAborted(readPrompt(prompt, { cwd, roots: [cwd, ...imageRoots] }));
    await this.#unlessAborted(this.#backend.preflight(settings));
    const skills = await this.#unlessAborted(skillsFor(read.text, cwd));
    if (skills.length > 0) {
      this.#session.say('system', `skills applied: ${skills.map(({ name }) => name).join(', ')}`, id);
    }
    // Nothing is done for a prompt that could still be forgotten.
    await this.#unlessAborted(this.#session.flushed());
    this.#checked.resolve();
    return read;
  }

  async #takeSlot(): Promise<void> {
    const { slots } = this.#parts;
    const ahead = slots.waiting;
    this.#slot = slots.tryTake();
    if (this.#slot === undefined) {
      this.#turn.status(`waiting for other turns (${ahead + 1})...`, { waiting: { position: ahead + 1 } });
      this.#slot = await slots.take(this.#turn.signal);
    }
    this.#count();
  }

  /** Looks after the context before the model is asked. */
  async #makeRoom(): Promise<void> {
    const { record } = this.#session;
    const provider = this.#backend.modelOf(this.#turn.settings)?.provider ?? null;
    const isSwitched = provider !== null && record.provider !== null && provider !== record.provider;
    if (record.history.length > 0) {
      this.#announce(COMPRESSING);
      await this.#backend.compact?.(this.#turn, isSwitched ? 'provider_switch' : 'auto');
      this.#turn.signal.throwIfAborted();
    }
    if (provider !== null && provider !== record.provider) this.#session.note('provider.used', { provider });
  }

  async #askBackend(): Promise<TurnResult> {
    for (let overflows = 0; ; overflows += 1) {
      try {
        const { stopReason } = await this.#backend.run(this.#turn);
        return { kind: stopReason === 'interrupted' ? 'interrupted' : 'completed', stopReason };
      } catch (thrown) {
        const error = asError(thrown);
        const isOverflow = error.code === 'provider_error' && error.detail.reason === 'context_overflow';
        if (!isOverflow || overflows === MAX_OVERFLOWS || !(await this.#overflowed())) throw error;
      }
    }
  }

  /** The provider says the context is too long: true when it is shorter now and the turn can go on. */
  async #overflowed(): Promise<boolean> {
    const turn = this.#turn;
    if (this.#backend.compact === undefined || turn.signal.aborted) return false;
    this.#announce(COMPRESSING);
    const { compressed } = await this.#backend.compact(turn, 'auto');
    if (!compressed) return false;
    turn.signal.throwIfAborted();
    const { history } = this.#session.record;
    turn.history = history.filter((item) => item.turn !== turn.id);
    const last = history.findLast((item) => item.turn === turn.id);
    // Text that broke off reads like a finished answer: then the model is asked anew.
    turn.continued = !(last?.role === 'assistant' && (last.calls ?? []).length === 0);
    this.#thinking();
    return true;
  }

  #thinking(): void {
    this.#announce(this.#turn.settings.thinking === 'OFF' ? DRAFTING : 'thinking...');
  }

  /** The labels that name their turn. */
  #announce(status_label: string): void {
    if (!this.#turn.over) this.#session.emit('session.status', { pending: true, status_label }, this.#turn.id);
  }

  /** What is waited for before the backend runs can be left at any time. */
  #unlessAborted<Value>(work: Value | Promise<Value>): Promise<Value> {
    return orAborted(work, this.#turn.signal);
  }

  /** While the user is asked, the turn's slot is somebody else's and its time stands still. */
  async #whileAsking(answer: Promise<Approval>): Promise<Approval> {
    const isDecided = await Promise.race([
      answer.then(() => true),
      new Promise<false>((resolve) => setImmediate(resolve, false)),
    ]);
    if (isDecided) return answer;
    this.#asking += 1;
    if (this.#asking === 1) {
      this.#pause();
      this.#slot?.();
      this.#slot = undefined;
    }
    try {
      return await answer;
    } finally {
      this.#asking -= 1;
      this.#returning ??= this.#return();
      await this.#returning;
    }
  }

  async #return(): Promise<void> {
    try {
      this.#slot ??= await this.#parts.slots.take(this.#turn.signal, true);
      if (this.#turn.over) this.#slot();
      else this.#count();
    } catch {
      // The turn ends; it needs no slot for that.
    } finally {
      this.#returning = undefined;
    }
  }

  #count(): void {
    if (this.#timer !== undefined || this.#leftMs <= 0) return;
    this.#countingSince = performance.now();
    this.#timer = setTimeout(this.#onTimeout, Math.min(this.#leftMs, MAX_DELAY_MS));
    this.#timer.unref();
  }

  #pause(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#countingSince));
  }
}

/** The failure of a turn whose backend is not there (any more). */
export function noBackend(name: string): Backend {
  const missing = () => fail('not_configured', `this server has no backend named "${name}"`);
  return {
    name,
    label: 'not configured',
    continues: false,
    preflight() {
      throw missing();
    },
    modelOf: (_settings: SessionSettings) => null,
    run: () => Promise.reject(missing()),
  };
}
