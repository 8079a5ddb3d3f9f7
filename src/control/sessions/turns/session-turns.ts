/**
 * The turns of one session: gives inputs to `turn-machine.ts` and carries its effects out. It holds only the state that cannot
 * outlive the process (the running backend, timers, waiting callers); all else is in the session's record.
 *
 * One per loaded session.
 */
import { withGrace } from '../../../base/race.ts';
import type { SessionSettings, StopReason } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError, type ErrorName, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Approver } from '../../contract/approver.ts';
import type { Backend } from '../../contract/backend.ts';
import type { SessionRecord, Steer } from '../../contract/session-log.ts';
import { isPending, type OpenSession } from '../log/open-session.ts';
import { isLong } from '../store/store-images.ts';
import { LiveTurn } from './live-turn.ts';
import { type Prompt, shownText, titleOf } from './prompt-text.ts';
import { dropPrompt, endTurn, type TurnEndDeps } from './turn-end.ts';
import { step, type TurnEffect, type TurnInput, type TurnLimits, type TurnState } from './turn-machine.ts';
import { type TurnResult, TurnRun, type TurnRunDeps } from './turn-run.ts';

/** Parts that all sessions share. */
export interface TurnDeps extends TurnRunDeps, TurnEndDeps {
  readonly approver: Approver;
  /** The backend of a session's next turn. */
  readonly backendOf: (session: OpenSession) => Backend;
  /** The settings of a session, with the server's defaults. */
  readonly settingsOf: (session: OpenSession) => SessionSettings;
  /** Returns the principal whose rights the turns of a session have. */
  readonly principalOf: (session: Pick<SessionRecord, 'id' | 'owner' | 'subagent'>) => Principal;
  readonly isDebugging: () => boolean;
  /** Nothing need be held for a session any more. */
  readonly release: (session: OpenSession) => void;
  /** True once the server stops: sessions accept no more input. */
  readonly isEnding: () => boolean;
  readonly limits: TurnLimits & {
    /** Time a backend has to stop after an abort, in milliseconds. */
    readonly interruptGraceMs: number;
  };
}

/** Work that has a session for itself. `hasEnded` is true once its caller no longer waits for it. */
export type Work<Value> = (signal: AbortSignal, hasEnded: () => boolean) => Value | Promise<Value>;

/** A prompt that is being sent, with its idempotency key. */
interface Incoming extends Prompt {
  readonly key?: string | undefined;
}

/** A turn whose backend runs. */
interface Running {
  readonly turn: LiveTurn;
  readonly run: TurnRun;
  /** Set once it was aborted. */
  grace: NodeJS.Timeout | undefined;
  /** Reason why its session could not be stored. */
  unstored: HandfastError | undefined;
}

export class SessionTurns {
  readonly session: OpenSession;
  readonly #parts: TurnDeps;
  #running: Running | undefined;
  #steered = 0;
  #held = false;
  #closing: TurnState['closing'] = null;
  /** Prompts that start now and are not in the queue, by turn id. */
  readonly #incoming = new Map<string, Incoming>();
  /** Ends when the images of the newest prompt are stored. */
  #storing: Promise<void> | undefined;
  /** Callers that wait until no turn runs. */
  readonly #waitingForEnd = new Set<() => void>();
  /** Ends with the last work that wants the session for itself. */
  #line: Promise<void> = Promise.resolve();
  #inLine = 0;
  #holder: AbortController | undefined;
  #suspended = false;
  #closeReason = 'closed';

  constructor(session: OpenSession, parts: TurnDeps) {
    this.session = session;
    this.#parts = parts;
  }

  /** True when nothing runs, waits or holds the session: then its record is all of its state. */
  get isIdle(): boolean {
    const { phase, turn, queue } = this.session.record;
    const isStill = phase === 'closed' || (phase === 'idle' && turn === null && queue.length === 0);
    return isStill && this.#inLine === 0 && this.#running === undefined;
  }

  /**
   * Accepts a prompt: its turn starts, or with `enqueue` waits. `checked` resolves when a started turn is known to run, or
   * has ended. `key` is its idempotency key. Throws `session_busy`, `session_closed`, `over_capacity` or `interrupted`.
   */
  send(
    turnId: string,
    prompt: Prompt,
    enqueue: boolean,
    key?: string,
  ): { readonly queued: boolean; readonly checked: Promise<void> } {
    this.#incoming.set(turnId, { ...prompt, key });
    try {
      const effects = this.#happened({ type: 'send', turnId, enqueue });
      const queued = effects.some((effect) => effect.do === 'queue');
      return { queued, checked: queued ? Promise.resolve() : (this.#running?.run.checked ?? Promise.resolve()) };
    } finally {
      this.#incoming.delete(turnId);
    }
  }

  /**
   * Returns a prompt that may have to wait, with its long images stored; behind the prompts that came before it. Fails with
   * `disk_full` or `runtime_error`.
   */
  stored(prompt: Prompt): Prompt | Promise<Prompt> {
    const isDirect = this.#storing === undefined && !prompt.images.some(isLong);
    return isDirect ? prompt : this.#stored(prompt);
  }

  async #stored(prompt: Prompt): Promise<Prompt> {
    const before = this.#storing;
    const mine = Promise.withResolvers<void>();
    this.#storing = mine.promise;
    try {
      await before;
      return { ...prompt, images: await this.session.storeImages(prompt.images) };
    } finally {
      if (this.#storing === mine.promise) this.#storing = undefined;
      mine.resolve();
    }
  }

  /** Steers the running turn. */
  steer(steer: Steer, expectedTurn?: string): Extract<TurnEffect, { do: 'settle_steer' }> {
    const effects = this.#happened({ type: 'steer', steer, expectedTurn });
    const answer = effects.find((effect) => effect.do === 'settle_steer');
    return answer ?? { do: 'settle_steer', outcome: 'rejected', turnId: null };
  }

  /** Interrupts the running turn; the queue continues. Returns its id; undefined when no turn was running. */
  interrupt(stopReason: StopReason, turnId?: string): string | undefined {
    const effects = this.#happened({ type: 'interrupt', turnId, stopReason });
    return effects.find((effect) => effect.do === 'abort')?.turnId;
  }

  /** Gives the running turn the rights that its owner has now, and ends it where they do not allow it any more. */
  rightsChanged(): void {
    if (this.#running === undefined) return;
    const { turn, run } = this.#running;
    turn.principal = this.#parts.principalOf(this.session.record);
    try {
      run.mustBeAllowed();
    } catch (error) {
      this.session.appendMessage('system', asError(error).message, turn.id);
      this.interrupt('interrupted', turn.id);
    }
  }

  /** Handles a session that could not be stored: the running turn does nothing more that would be lost, and fails. */
  unstored(error: HandfastError): void {
    const running = this.#running;
    if (running === undefined || running.unstored !== undefined) return;
    running.unstored = error;
    if (running.grace !== undefined) return;
    this.#graceOf(running, this.#failedBy(error));
    running.turn.abort(error);
  }

  /** Drops prompts that wait: one, or all. Returns their number. */
  dropQueued(stopReason: StopReason, turnId?: string): number {
    const input: TurnInput =
      turnId === undefined ? { type: 'clear_queue', stopReason } : { type: 'remove', turnId, stopReason };
    return this.#happened(input).filter((effect) => effect.do === 'drop').length;
  }

  /**
   * Ends the turns and closes the session, or, for `shutdown`, only ends its turns for good. Resolves when nothing runs any
   * more, at the latest after the grace period. `reason` is sent to clients.
   */
  async close(why: 'closed' | 'shutdown', reason = 'closed'): Promise<void> {
    this.#closeReason = reason;
    this.#holder?.abort(fail('session_closed', 'the session is being closed'));
    this.#happened({ type: 'close', why });
    await this.#turnsEnded();
    await this.#line;
  }

  /** Reopens a closed session for prompts. */
  reopen(): void {
    this.#happened({ type: 'reopen' });
  }

  /**
   * Runs `work` while no turn runs and none starts: a running one is ended first. Works of one session go one after the
   * other. `work` should end soon after its signal aborts, which it does when the session is closed; it is not waited for
   * longer than a backend is, and then `hasEnded` is true. Fails with `session_closed` or `interrupted`.
   */
  async exclusively<Value>(stopReason: StopReason, work: Work<Value>): Promise<Value> {
    const before = this.#line;
    const mine = Promise.withResolvers<void>();
    this.#line = mine.promise;
    this.#inLine += 1;
    try {
      await before;
      const { closing, phase } = this.#state();
      if (closing !== null || phase === 'closed')
        throw this.#refusal(closing === 'shutdown' ? 'interrupted' : 'session_closed');
      this.#happened({ type: 'hold' });
      this.interrupt(stopReason);
      await this.#turnsEnded();
      return await this.#heldFor(work);
    } finally {
      this.#inLine -= 1;
      this.#happened({ type: 'release' });
      mine.resolve();
    }
  }

  /** Restarts: continues the running turn where possible, else ends it; then starts the next prompt. */
  restart(): void {
    const { turn, subagent } = this.session.record;
    const continues =
      turn !== null && subagent === null && this.#parts.backendOf(this.session).continues && waitsForUser(this.session);
    this.#happened({ type: 'restart', continues });
  }

  /**
   * Suspends the session when the process ends, if its turn only waits for the user: it continues in the next process. True
   * when it does: then it accepts no input any more.
   */
  suspend(): boolean {
    const { record } = this.session;
    if (record.turn === null || record.phase !== 'running' || !waitsForUser(this.session)) return false;
    // A subagent ends with its process.
    if (record.subagent !== null) return false;
    if (!this.#parts.backendOf(this.session).continues) return false;
    this.#suspended = true;
    this.session.snapshot();
    this.session.seal();
    this.#running?.turn.suspend(fail('interrupted', 'the server is ending'));
    this.#running?.run.stop();
    this.#running = undefined;
    this.#notifyEnded();
    return true;
  }

  #state(): TurnState {
    const { phase, turn, queue, steers } = this.session.record;
    return {
      phase,
      turn: turn?.id ?? null,
      queue: queue.map(({ turnId }) => turnId),
      steers,
      steered: this.#steered,
      held: this.#held,
      closing: this.#closing ?? (this.#parts.isEnding() ? 'shutdown' : null),
    };
  }

  /** Gives an input to the machine and carries its effects out. Throws its refusals. */
  #happened(input: TurnInput, result?: TurnResult): readonly TurnEffect[] {
    if (this.#suspended || this.session.deleted) {
      if (input.type === 'send') throw this.#refusal(this.session.deleted ? 'session_closed' : 'interrupted');
      return [];
    }
    const { state, effects } = step(this.#state(), input, this.#parts.limits);
    this.#steered = state.steered;
    this.#held = state.held;
    this.#closing = state.closing;
    for (const effect of effects) this.#do(effect, result);
    if (this.session.record.turn === null && !isPending(this.session.record)) this.#notifyEnded();
    return effects;
  }

  #do(effect: TurnEffect, result: TurnResult | undefined): void {
    const { session } = this;
    switch (effect.do) {
      case 'refuse':
        throw this.#refusal(effect.code);
      case 'queue':
        return this.#queue(effect.turnId, effect.position, effect.steer);
      case 'start':
        return this.#start(effect.turnId, effect.steer);
      case 'store_steer':
        return session.note('steer.added', { steer: effect.steer });
      case 'settle_steer':
        return;
      case 'abort':
        return this.#abort(effect.turnId, effect.stopReason);
      case 'end': {
        // A turn of an earlier process: it was being stopped, or it ended with its process.
        const stopReason = session.folded.running?.ending ?? 'restart';
        const restarted: TurnResult = { kind: 'interrupted', stopReason };
        endTurn(session, effect.restart === true ? restarted : (result ?? restarted), this.#parts);
        return session.shrink();
      }
      case 'drop':
        return dropPrompt(session, effect.turnId, effect.stopReason);
      case 'return_steers':
        return this.#returnSteers(effect.steers, effect.reason);
      case 'continue':
        return this.#continue(effect.turnId);
      case 'ready':
        return session.emit('session.status', { pending: false, status_label: 'ready' });
      case 'close':
        session.emit('session.closed', { reason: this.#closeReason });
        return this.#parts.release(session);
      case 'reopen':
        session.note('session.reopened', {});
        return session.emit('session.status', { pending: false, status_label: 'ready' });
    }
  }

  #refusal(code: ErrorName): HandfastError {
    const detail = { session_id: this.session.id };
    switch (code) {
      case 'session_busy':
        return fail(code, 'session is busy; use enqueue=true to queue the prompt', detail);
      case 'over_capacity':
        return fail(code, 'too many prompts wait in this session', {
          ...detail,
          queue_limit: this.#parts.limits.queueLength,
        });
      case 'interrupted':
        return fail(code, 'the server is ending', detail);
      default:
        return fail('session_closed', `session is closed: ${this.session.id}; load it to continue`, detail);
    }
  }

  #queue(turnId: string, position: number, steer: Steer | undefined): void {
    const { session } = this;
    const queued: Incoming = steer === undefined ? this.#incoming.get(turnId)! : { text: steer.text, images: [] };
    const { text, images, key: idempotency_key } = queued;
    const enqueued_at = new Date(this.#parts.now()).toISOString();
    const { length } = session.record.queue;
    const late = steer === undefined ? {} : { steer_id: steer.id };
    const place = position === length ? {} : { position };
    const payload = { text, images, enqueued_at, idempotency_key };
    session.emit('session.turn.queued', { ...payload, ...late, ...place }, turnId);
    // This status is not the state of the session: an idle session starts the prompt next.
    const status_label = `queued (${length + 1})`;
    session.emit('session.status', { pending: true, status_label, detail: { turn_id: turnId } });
  }

  #start(turnId: string, steer: Steer | undefined): void {
    const { session } = this;
    const waiting = session.record.queue.find((prompt) => prompt.turnId === turnId);
    const steered = steer === undefined ? undefined : { text: steer.text, images: [] };
    const prompt: Prompt = waiting ?? this.#incoming.get(turnId) ?? steered ?? { text: '', images: [] };
    const backend = this.#parts.backendOf(session);
    const started_at = new Date(this.#parts.now()).toISOString();
    const idempotency_key = this.#incoming.get(turnId)?.key;
    session.emit('session.turn.started', { text: shownText(prompt), started_at, idempotency_key }, turnId);
    if (backend.name !== session.record.backend) session.note('backend.chosen', { backend: backend.name });
    if (session.record.title === '') {
      const title = titleOf(prompt);
      if (title !== '') session.emit('session.renamed', { title });
    }
    session.emit('session.status', { pending: true, status_label: 'preparing...' }, turnId);
    this.#launch(turnId, backend, (run) => run.run(prompt));
  }

  #continue(turnId: string): void {
    const { session } = this;
    session.emit('session.status', { pending: true, status_label: 'preparing...' }, turnId);
    this.#launch(turnId, this.#parts.backendOf(session), (run) => run.continue());
  }

  #launch(turnId: string, backend: Backend, start: (run: TurnRun) => Promise<TurnResult>): void {
    const { session } = this;
    const { approver, isDebugging } = this.#parts;
    const principal = this.#parts.principalOf(session.record);
    const settings = this.#parts.settingsOf(session);
    const turn = new LiveTurn({ id: turnId, session, principal, settings, approver, isDebugging });
    const run = new TurnRun(session, turn, backend, this.#parts, () => this.interrupt('timeout', turnId));
    const running: Running = { turn, run, grace: undefined, unstored: undefined };
    this.#running = running;
    void start(run).then((result) => this.#ended(running, result));
  }

  #abort(turnId: string, stopReason: StopReason): void {
    const { session } = this;
    const running = this.#running;
    // The reason is in the event, so that a restart in between still knows it.
    session.emit('session.status', {
      pending: true,
      status_label: 'interrupting...',
      detail: { turn_id: turnId, stop_reason: stopReason },
    });
    if (running === undefined) return;
    clearTimeout(running.grace);
    this.#graceOf(running, { kind: 'interrupted', stopReason });
    running.turn.abort(
      stopReason === 'timeout'
        ? fail('timeout', 'the turn exceeded its time limit')
        : fail('cancelled', `the turn was ended: ${stopReason}`, { stop_reason: stopReason }),
    );
  }

  /** Ends a turn with `result` when its backend does not stop in time. */
  #graceOf(running: Running, result: TurnResult): void {
    const { interruptGraceMs } = this.#parts.limits;
    running.grace = setTimeout(() => {
      this.session.abandoned(running.turn.id, interruptGraceMs);
      this.#ended(running, result);
    }, interruptGraceMs);
  }

  #failedBy(error: HandfastError): TurnResult {
    return { kind: 'failed', error, asked: this.session.folded.running?.prompted ?? false };
  }

  /** Ends a turn whose backend has ended, or was abandoned: its later output is ignored. */
  #ended(running: Running, result: TurnResult): void {
    if (this.#running !== running) return;
    const { turn, run, grace, unstored } = running;
    clearTimeout(grace);
    const ending = this.session.folded.running?.ending ?? null;
    turn.end();
    run.stop();
    this.#running = undefined;
    // A turn that was being stopped counts as interrupted, with any outcome of its backend.
    this.#happened(
      { type: 'ended', turnId: turn.id },
      ending !== null
        ? { kind: 'interrupted', stopReason: ending }
        : unstored === undefined || result.kind === 'failed'
          ? result
          : this.#failedBy(unstored),
    );
  }

  #returnSteers(steers: readonly Steer[], reason: string): void {
    const { session } = this;
    session.emit('session.steer.returned', { steers: steers.map(({ id, text }) => ({ id, text })), reason });
    session.appendMessage('system', `${steers.length} steer message(s) were queued too late and not applied.`);
  }

  /** Runs `work` while the session is held; work that does not stop within the grace period is abandoned. */
  async #heldFor<Value>(work: Work<Value>): Promise<Value> {
    const { session } = this;
    const holder = new AbortController();
    this.#holder = holder;
    const { interruptGraceMs } = this.#parts.limits;
    let hasEnded = false;
    try {
      return await withGrace(
        work(holder.signal, () => hasEnded),
        holder.signal,
        interruptGraceMs,
        (reason) => {
          throw reason;
        },
      );
    } finally {
      hasEnded = true;
      this.#holder = undefined;
      if (isPending(session.record) && !session.deleted) {
        session.emit('session.status', { pending: false, status_label: 'ready' });
      }
    }
  }

  /** Resolves when no turn runs. Bounded by the time a backend has to stop. */
  #turnsEnded(): Promise<void> {
    if (this.#running === undefined) return Promise.resolve();
    return new Promise((resolve) => this.#waitingForEnd.add(resolve));
  }

  #notifyEnded(): void {
    if (this.#running !== undefined) return;
    for (const resolve of this.#waitingForEnd) resolve();
    this.#waitingForEnd.clear();
  }
}

/** True when the running turn only waits for the user: every tool call of it that has no result waits for an approval. */
function waitsForUser({ record, folded }: OpenSession): boolean {
  const { turn, approvals } = record;
  const waiting = [...approvals, ...folded.asked].filter(
    ({ state, turn_id }) => state === 'pending' && turn_id === turn?.id,
  );
  const asked = new Set(waiting.map(({ tool }) => tool?.call_id));
  return waiting.length > 0 && (folded.running?.calls ?? []).every(({ call }) => asked.has(call.callId));
}
