/**
 * The round loop: the model speaks, its tool calls run, their results go back to it, until it calls no more tools.
 *
 * The loop streams through the turn, updates the history after each step, so that a restarted server knows which steps were
 * done, and leaves the turn's message and terminal event to `sessions/`.
 * @see docs/protocol/session-rpc.md#turns
 */
import { FreeNames } from '../../base/free-names.ts';
import { orAborted } from '../../base/race.ts';
import type { Image, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { boundedValue } from '../../wire/bounded-value.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import type { Turn, TurnOutcome } from '../contract/backend.ts';
import { type HistoryItem, toolItem } from '../contract/session-log.ts';
import { failedCall } from './failed-call.ts';
import { interruptible } from './interruptible.ts';
import { resultMedia } from './result-media.ts';
import type { FinishReason, ModelPart, RoundModel } from './round-model.ts';
import type { Toolbox, ToolOffer, ToolOutcome } from './toolbox.ts';
import { type RoundCall, turnProgress } from './turn-progress.ts';

/** Maximum number of model rounds of a turn without a setting. */
export const DEFAULT_MAX_ROUNDS = 50;
/** Longest result, or arguments in an event, in bytes of JSON. */
const DEFAULT_MAX_RESULT_BYTES = 64 * 1024;

export interface RoundsOptions {
  /** Instructions before the conversation. */
  readonly system?: string;
  /** Longer results are cut, for the model and for events. Default 64 KiB of JSON. */
  readonly maxResultBytes?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

const INTERRUPTED: TurnOutcome = { stopReason: 'interrupted' };

/** Maximum number of continuations of a round's answer that was cut off. */
const MAX_CONTINUATIONS = 3;

/** The parts of a round that were streamed so far. */
interface Streamed {
  text: string;
  reasoning: string;
  readonly calls: RoundCall[];
  finish: Extract<ModelPart, { type: 'finish' }>;
}

/** The outcome of one model round. */
interface Said {
  readonly calls: readonly RoundCall[];
  readonly finish: FinishReason;
}

/**
 * Runs a turn to its end. Resolves with `interrupted` once `turn.signal` has aborted: within the time its tools take to
 * give up, and without waiting for the model. Rejects with the failure of the model or the environment; the text and
 * calls until then are in the history.
 */
export function runRounds(
  turn: Turn,
  model: RoundModel,
  toolbox: Toolbox,
  options: RoundsOptions = {},
): Promise<TurnOutcome> {
  return new Rounds(turn, model, toolbox, options).run();
}

class Rounds {
  readonly #turn: Turn;
  readonly #model: RoundModel;
  readonly #toolbox: Toolbox;
  readonly #system: string;
  readonly #maxResultBytes: number;
  readonly #now: () => number;
  readonly #parallel: boolean;
  readonly #maxRounds: number;
  /** Call ids of this turn: approvals and results are matched by them. */
  readonly #callIds = new FreeNames();
  #round = 0;

  constructor(turn: Turn, model: RoundModel, toolbox: Toolbox, options: RoundsOptions) {
    this.#turn = turn;
    this.#model = model;
    this.#toolbox = toolbox;
    this.#system = options.system ?? '';
    this.#maxResultBytes = options.maxResultBytes ?? DEFAULT_MAX_RESULT_BYTES;
    this.#now = options.now ?? (() => performance.now());
    this.#parallel = turn.settings.parallelTools ?? false;
    this.#maxRounds = Math.max(1, turn.settings.maxRounds ?? DEFAULT_MAX_ROUNDS);
  }

  async run(): Promise<TurnOutcome> {
    try {
      return await this.#rounds();
    } catch (error) {
      // Any error after the abort is caused by it.
      if (this.#turn.signal.aborted) return INTERRUPTED;
      throw asError(error);
    }
  }

  async #rounds(): Promise<TurnOutcome> {
    // Also for a turn that starts again after a compression: rounds and call ids continue.
    const progress = turnProgress(this.#turn);
    this.#round = progress.round;
    for (const callId of progress.callIds) this.#callIds.take(callId);
    if (this.#turn.continued && progress.finished) return { stopReason: 'end_turn' };
    if (this.#turn.continued && progress.calls.length > 0) {
      // The tools were not listed in this process yet, and calls are looked up in that list.
      await this.#offers();
      const ended = await this.#afterCalls(progress.calls);
      if (ended !== undefined) return ended;
    }
    for (;;) {
      this.#turn.signal.throwIfAborted();
      if (this.#round >= this.#maxRounds) return { stopReason: 'max_rounds' };
      this.#round += 1;
      const { calls, finish } = await this.#think();
      if (calls.length === 0) return { stopReason: stopReasonOf(finish) };
      const ended = await this.#afterCalls(calls);
      if (ended !== undefined) return ended;
    }
  }

  #offers(): Promise<readonly ToolOffer[]> {
    return orAborted(this.#toolbox.list(), this.#turn.signal);
  }

  /** Runs the calls of a round; the outcome when no further round may follow. */
  async #afterCalls(calls: readonly RoundCall[]): Promise<TurnOutcome | undefined> {
    await this.#callAll(calls);
    this.#turn.signal.throwIfAborted();
    // Before the steers: a steer that no round will see is better reported as late than accepted and dropped.
    if (this.#round >= this.#maxRounds) return { stopReason: 'max_rounds' };
    const steers = this.#turn.takeSteers();
    if (steers.length > 0) this.#turn.debug('steer_injected', { round: this.#round, count: steers.length });
    return undefined;
  }

  /**
   * Runs one model round: streams it and puts it into the history. An answer that is cut off is continued, where the model can.
   */
  async #think(): Promise<Said> {
    const turn = this.#turn;
    const said: Streamed = { text: '', reasoning: '', calls: [], finish: { type: 'finish', reason: 'other' } };
    let cut: HandfastError | undefined;
    for (let cuts = 0; ; ) {
      const before = said.text.length + said.reasoning.length;
      try {
        await this.#stream(said);
        break;
      } catch (thrown) {
        const error = asError(thrown);
        const shown = said.text.length + said.reasoning.length > before;
        if (this.#model.continues && shown && isCut(error) && cuts < MAX_CONTINUATIONS && !turn.signal.aborted) {
          cut = error;
          cuts += 1;
          this.#continuing(cuts, error.message);
          continue;
        }
        // Calls of a round that was cut off were not made and stay out of the history; its text was sent and is in it.
        if (said.text !== '') this.#remember({ role: 'assistant', turn: turn.id, text: said.text });
        // A provider that refuses to continue says nothing of why the answer ended.
        throw isCut(error) ? error : (cut ?? error);
      }
    }
    const { text, reasoning, finish } = said;
    // After a refusal no call of the round is made.
    const calls = finish.reason === 'refusal' ? [] : said.calls;
    if (text !== '' || calls.length > 0) {
      // Data that the provider wants back belongs to one answer, not to one that was put together.
      const providerData = cut === undefined ? finish.providerData : undefined;
      this.#remember({
        role: 'assistant',
        turn: turn.id,
        text,
        ...(reasoning !== '' && { reasoning }),
        ...(calls.length > 0 && {
          calls: calls.map(({ call: { callId, name, input } }) => ({ callId, name, input })),
          ...(this.#parallel && { parallel: true }),
        }),
        ...(providerData !== undefined && { providerData }),
      });
    }
    return { calls, finish: finish.reason };
  }

  /** Streams an answer, or the rest of one, and adds it to the streamed part of this round. */
  async #stream(said: Streamed): Promise<void> {
    const turn = this.#turn;
    const tools = await this.#offers();
    const stream = this.#model.stream({
      history: turn.log.record.history,
      turnId: turn.id,
      system: this.#system,
      tools,
      round: this.#round,
      signal: turn.signal,
      ...(said.text !== '' && { partial: said.text }),
    });
    for await (const part of interruptible(stream, turn.signal)) {
      switch (part.type) {
        case 'thought':
          said.reasoning += part.text;
          turn.thought(part.text);
          break;
        case 'answer':
          said.text += part.text;
          turn.answer(part.text);
          break;
        case 'call':
          said.calls.push(this.#plan(part));
          break;
        case 'retry':
          this.#retrying(part);
          break;
        case 'usage':
          turn.usage(part.usage);
          break;
        case 'finish':
          said.finish = part;
          break;
      }
    }
  }

  #continuing(attempt: number, reason: string): void {
    const retry = { attempt, max_attempts: MAX_CONTINUATIONS, delay_ms: 0, reason };
    this.#turn.debug('answer_cut', retry);
    this.#turn.status(`the answer was cut off; continuing (${attempt}/${MAX_CONTINUATIONS})...`, { retry });
  }

  #plan(part: Extract<ModelPart, { type: 'call' }>): RoundCall {
    const { name, input, invalid } = part;
    const callId = this.#freshId(part.callId);
    const call: ToolCall = { name, input, providerToolName: part.providerToolName ?? name, callId };
    return { call, invalid };
  }

  /** Returns the provider's id, or one made from it when it is missing or was used in this turn before. */
  #freshId(wanted: string): string {
    const stem = wanted === '' ? `call_${this.#round}` : wanted;
    return this.#callIds.take(stem, wanted === '' ? `${stem}_1` : stem);
  }

  #retrying({ attempt, maxAttempts, delayMs, reason, cause }: Extract<ModelPart, { type: 'retry' }>): void {
    const retry = { attempt, max_attempts: maxAttempts, delay_ms: Math.round(delayMs), reason };
    this.#turn.debug('retry_429', retry);
    this.#turn.status(`${cause ?? 'capacity unavailable'}; retrying (${attempt}/${maxAttempts})...`, { retry });
  }

  /** Runs the calls, one after the other or all at once; every call has a result in the history afterwards. */
  async #callAll(calls: readonly RoundCall[]): Promise<void> {
    const { signal } = this.#turn;
    const results: (ToolDone | undefined)[] = calls.map(() => undefined);
    const run = async (at: number): Promise<void> => {
      results[at] = await this.#call(calls[at] as RoundCall);
    };
    this.#turn.debug('tool_calls', { round: this.#round, calls: calls.map(({ call }) => call) });
    if (this.#parallel) await Promise.all(calls.keys().map(run));
    else {
      for (const at of calls.keys()) {
        if (signal.aborted) break;
        await run(at);
      }
    }
    const done = results.filter((result) => result !== undefined);
    // A call without a result would make every later request to a provider invalid.
    for (const [at, result] of results.entries()) if (result === undefined) this.#skipped(calls[at] as RoundCall);
    this.#turn.debug('tool_results', { round: this.#round, results: done });
    this.#turn.toolResults(this.#round, done);
  }

  #skipped({ call }: RoundCall): void {
    this.#rememberResult(failedCall(call, 'cancelled', 'not run: the turn was interrupted before'));
  }

  async #call({ call, invalid, began, ended }: RoundCall): Promise<ToolDone> {
    if (ended?.sent) return ended.done;
    const turn = this.#turn;
    const startedAt = this.#now();
    if (!began) {
      const offer = this.#toolbox.find(call.name);
      turn.toolStarted(
        this.#round,
        { ...call, input: this.#shown(call.input) },
        offer === undefined ? undefined : { toolKind: offer.kind, risks: offer.risks },
      );
      turn.debug('tool_call_started', { round: this.#round, call });
    }
    const { images: beside, ...raw }: ToolOutcome = ended?.done ?? (await this.#result(call, invalid));
    const { value, images } = resultMedia(raw.result, beside);
    const done: ToolDone = {
      ...raw,
      input: this.#shown(call.input),
      result: boundedValue(value, this.#maxResultBytes).value,
      callId: call.callId,
    };
    // The model's history comes first: after a crash in between the call counts as done, not as lost.
    this.#rememberResult(done, images);
    turn.toolDone(this.#round, done, Math.round(this.#now() - startedAt));
    turn.debug('tool_call_completed', { round: this.#round, done });
    return done;
  }

  async #result(call: ToolCall, invalid: string | undefined): Promise<ToolOutcome> {
    const { signal } = this.#turn;
    if (this.#toolbox.find(call.name) === undefined) return failedCall(call, 'not_found', `unknown tool: ${call.name}`);
    if (invalid !== undefined) return failedCall(call, 'invalid_input', `invalid arguments: ${invalid}`);
    try {
      // A crash behind the call must know of it, and nothing acts whose outcome could not be stored.
      await orAborted(this.#turn.log.flushed(), signal);
    } catch (thrown) {
      return failedCall(call, signal.aborted ? 'cancelled' : 'failed', `not run: ${asError(thrown).message}`);
    }
    try {
      return await this.#toolbox.call(call, signal, (stream, text) => this.#turn.toolOutput(call.callId, stream, text));
    } catch (error) {
      // A toolbox does not throw; if one does, it is one call that failed and not the turn.
      return failedCall(call, signal.aborted ? 'cancelled' : 'failed', asError(error).message);
    }
  }

  /** Returns arguments as events carry them. The call, its approval and the history always have the whole arguments. */
  #shown(input: ToolCall['input']): ToolCall['input'] {
    return boundedValue(input, this.#maxResultBytes).value as ToolCall['input'];
  }

  #rememberResult(done: ToolDone, images: readonly Image[] = []): void {
    this.#remember({ ...toolItem(this.#turn.id, done), ...(images.length > 0 && { images }) });
  }

  #remember(item: HistoryItem): void {
    this.#turn.log.remember([item]);
  }
}

function stopReasonOf(finish: FinishReason): TurnOutcome['stopReason'] {
  return finish === 'max_tokens' || finish === 'refusal' ? finish : 'end_turn';
}

/** True when the provider, or the way to it, failed in a manner that another request may not meet. */
const isCut = ({ code, retryable }: HandfastError): boolean => code === 'provider_error' && retryable;
