/**
 * One turn from its prompt to its result: reads the prompt, checks the backend, waits for a slot, fits the context, and runs
 * the backend. `session-turns.ts` writes the end (`turn-end.ts`).
 *
 * @see docs/protocol/session-rpc.md#turns
 */

import { MAX_DELAY_MS } from '../../../base/deadlines.ts';
import { orAborted } from '../../../base/race.ts';
import type { ReleaseSlot, SharedSlots } from '../../../base/shared-slots.ts';
import type { Approval, ImageReference, SessionSettings, StopReason } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Backend } from '../../contract/backend.ts';
import type { AcceptedPrompt, ReadPrompt } from '../../rounds/prompt.ts';
import type { OpenSession } from '../log/open-session.ts';
import { mustRun } from '../record/session-rights.ts';
import { DRAFTING, type LiveTurn } from './live-turn.ts';

/** Maximum number of compressions of a turn whose context the provider refuses as too long. */
const MAX_OVERFLOWS = 2;

export const COMPRESSING = 'compressing context...';

/** The result of a turn. */
export type TurnResult =
  | { readonly kind: 'completed'; readonly stopReason: StopReason }
  | { readonly kind: 'interrupted'; readonly stopReason: StopReason }
  /** `asked`: a model may have been asked; false when the turn failed before. */
  | { readonly kind: 'failed'; readonly error: HandfastError; readonly asked: boolean };

export interface TurnRunDeps {
  /** Reads the images of a prompt. The message of a failure is shown to the user. */
  readonly readPrompt: (
    prompt: AcceptedPrompt,
    places: { readonly cwd: string; readonly roots: readonly string[]; readonly principal: Principal },
  ) => Promise<ReadPrompt>;
  /** Folders that images may be read from, beside that of the session. */
  readonly imageRoots: readonly string[];
  /** Refuses folders a principal may not work in. Default: any folder. */
  readonly checkCwd?: ((cwd: string, principal: Principal) => void) | undefined;
  /** The skills a prompt names. */
  readonly skillsFor: (prompt: string, cwd: string) => Promise<readonly { readonly name: string }[]>;
  /** Turns that run, in shares of the owners of their sessions. */
  readonly slots: SharedSlots;
  /** Makes the chat of a session ready for the end of its turn. Throws as the store does. */
  readonly prepareChat: (session: OpenSession, turnId: string) => Promise<void>;
  /** Time limit of a turn without one in its settings, in milliseconds. Waiting for the user does not count. */
  readonly turnTimeoutMs: number;
}

export class TurnRun {
  readonly #session: OpenSession;
  readonly #turn: LiveTurn;
  readonly #backend: Backend;
  readonly #parts: TurnRunDeps;
  readonly #checked = Promise.withResolvers<void>();
  readonly #onTimeout: () => void;
  #slot: ReleaseSlot | undefined;
  /** The slot that is waited for after an answer of the user. */
  #returning: Promise<void> | undefined;
  /** Pending questions to the user. */
  #asking = 0;
  #leftMs: number;
  #countingSince = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `onTimeout` is called once at the turn's time limit. */
  constructor(session: OpenSession, turn: LiveTurn, backend: Backend, parts: TurnRunDeps, onTimeout: () => void) {
    this.#session = session;
    this.#turn = turn;
    this.#backend = backend;
    this.#parts = parts;
    this.#onTimeout = onTimeout;
    this.#leftMs = turn.settings.turnTimeoutMs ?? parts.turnTimeoutMs;
    turn.whileAsking = (answer) => this.#whileAsking(answer);
  }

  /** Resolves when the turn is known to run, or has ended. */
  get checked(): Promise<void> {
    return this.#checked.promise;
  }

  /** Runs a new turn. Never rejects. */
  run(prompt: { readonly text: string; readonly images: readonly ImageReference[] }): Promise<TurnResult> {
    return this.#guarded(async () => {
      const read = await this.#prepare(prompt);
      await this.#acquireSlot();
      await this.#fitContext();
      await this.#prepareChat();
      this.#statusThinking();
      this.#turn.history = [...this.#session.record.history];
      this.#turn.prompt = read;
      this.#session.appendMessage('user', read.text, this.#turn.id, { images: read.images });
      const images = read.images.length > 0 ? { images: read.images } : {};
      this.#session.remember([{ role: 'user', turn: this.#turn.id, text: read.text, ...images }]);
      return this.#askBackend();
    });
  }

  /** Continues a turn of an earlier process. Never rejects. */
  continue(): Promise<TurnResult> {
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
      this.mustBeAllowed();
      await this.#unlessAborted(this.#backend.preflight(this.#turn.settings));
      this.#checked.resolve();
      await this.#acquireSlot();
      await this.#prepareChat();
      return this.#askBackend();
    });
  }

  /** Defaults and the rights of the owner may have changed since the session was made. Fails with `unauthorized`. */
  mustBeAllowed(): void {
    const { principal, settings, cwd } = this.#turn;
    this.#parts.checkCwd?.(cwd, principal);
    mustRun(principal, settings, this.#backend);
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

  /** Releases the slot and the timer. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = 0;
    this.#checked.resolve();
    this.#slot?.();
  }

  async #prepare(prompt: AcceptedPrompt): Promise<ReadPrompt> {
    const { readPrompt, imageRoots, skillsFor } = this.#parts;
    const { cwd, settings, id, principal } = this.#turn;
    this.mustBeAllowed();
    const { text, images } = await this.#unlessAborted(
      readPrompt(prompt, { cwd, roots: [cwd, ...imageRoots], principal }),
    );
    const read = { text, images: await this.#unlessAborted(this.#session.storeImages(images)) };
    await this.#unlessAborted(this.#backend.preflight(settings));
    const skills = await this.#unlessAborted(skillsFor(read.text, cwd));
    if (skills.length > 0) {
      this.#session.appendMessage('system', `skills applied: ${skills.map(({ name }) => name).join(', ')}`, id);
    }
    // The prompt must be on disk before the backend works for it.
    await this.#unlessAborted(this.#session.flushed());
    this.#checked.resolve();
    return read;
  }

  async #acquireSlot(): Promise<void> {
    const { slots } = this.#parts;
    const { principal } = this.#turn;
    const ahead = slots.waiting;
    this.#slot = slots.tryAcquire(principal.name);
    if (this.#slot === undefined) {
      this.#turn.status(`waiting for other turns (${ahead + 1})...`, { waiting: { position: ahead + 1 } });
      this.#slot = await slots.acquire(principal.name, this.#turn.signal);
    }
    this.#count();
  }

  /** Compresses the context where needed before the model is asked. */
  async #fitContext(): Promise<void> {
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

  async #prepareChat(): Promise<void> {
    await this.#parts.prepareChat(this.#session, this.#turn.id);
    this.#turn.signal.throwIfAborted();
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

  /** Handles a context that exceeds the provider's limit: true when it was compressed and the turn can continue. */
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
    // Text that was cut off looks like a finished answer: then the model is asked again.
    turn.continued = !(last?.role === 'assistant' && (last.calls ?? []).length === 0);
    this.#statusThinking();
    return true;
  }

  #statusThinking(): void {
    this.#announce(this.#turn.settings.thinking === 'OFF' ? DRAFTING : 'thinking...');
  }

  /** Sends the labels that name their turn. */
  #announce(status_label: string): void {
    if (!this.#turn.ended) this.#session.emit('session.status', { pending: true, status_label }, this.#turn.id);
  }

  /** Waits before the backend runs; the wait can be left at any time. */
  #unlessAborted<Value>(work: Value | Promise<Value>): Promise<Value> {
    return orAborted(work, this.#turn.signal);
  }

  /** Gives the slot to another turn while this one waits for the user, and pauses its time limit. */
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
      const { principal, signal } = this.#turn;
      this.#slot ??= await this.#parts.slots.acquire(principal.name, signal, { first: true });
      if (this.#turn.ended) this.#slot();
      else this.#count();
    } catch {
      // The turn ends, which needs no slot.
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

/** Makes a backend that fails every turn: the named one does not exist (any more). */
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
