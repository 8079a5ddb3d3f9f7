/**
 * The model backend: turns thought by a model of a provider, through the AI SDK, with the tools of the session's
 * environment. The rounds are `control/rounds/rounds.ts`'s; here are the conversation, the provider and the context.
 *
 * Model and credentials are read from the settings for each turn.
 * @see docs/protocol/session-rpc.md#turns
 */
import { Turns } from '../../../base/turns.ts';
import type { SessionSettings, Thinking } from '../../../protocol/session-types.ts';
import { THINKING_LEVELS } from '../../../protocol/session-types.ts';
import { AUDIO_OF_PROVIDERS, isAudio } from '../../../protocol/session-words.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { Backend, Compaction, Turn, TurnOutcome } from '../../contract/backend.ts';
import type { ModelChoice, Providers } from '../../contract/providers.ts';
import type { Environments } from '../../rounds/environments.ts';
import { notedOnce } from '../../rounds/noted-once.ts';
import { withPlan } from '../../rounds/plan.ts';
import { withQuestions } from '../../rounds/questions.ts';
import { recallFor } from '../../rounds/recall.ts';
import type { ModelPart, RoundRequest } from '../../rounds/round-model.ts';
import { runRounds } from '../../rounds/rounds.ts';
import { withApprovals } from '../../rounds/with-approvals.ts';
import { takesAudio } from './attachments.ts';
import { compactHistory } from './compaction.ts';
import { ContextMeter, contextLimit, estimatePayload, UNKNOWN_WINDOW } from './context.ts';
import { messagesOf } from './conversation.ts';
import { type ProviderRoundOptions, providerRound, type RoundInput } from './provider-rounds.ts';
import { Refusals, toolsNotice } from './refused-requests.ts';
import { DEFAULT_LIMITS, type RequestLimits } from './request-limits.ts';
import { openModel } from './sdk.ts';
import type { SummaryQuestion } from './summary.ts';
import { systemPrompt } from './system-prompt.ts';
import { toolNames, toolNamesInTurns } from './tool-names.ts';

export interface ModelBackendOptions {
  readonly providers: Providers;
  /** The environments with the tools of each session; shared with the other backends and stopped by their owner. */
  readonly environments: Pick<Environments, 'for' | 'release' | 'recallOf' | 'putPlan' | 'deliver'>;
  /** Entries of the user's memory that are recalled for a prompt at most. Default 0: none. */
  readonly recallEntries?: number | undefined;
  /** Instructions of a turn beside the system prompt: the operator's, and the skills the prompt names. */
  readonly instructionsFor?: (turn: Pick<Turn, 'prompt' | 'cwd'>) => string | Promise<string>;
  /** Timeouts and retries of requests. */
  readonly limits?: Partial<RequestLimits>;
  /** Time a summary may take, retries included, in milliseconds. Default five minutes. */
  readonly summaryTimeoutMs?: number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** Waits between attempts; rejects when the signal aborts. */
  readonly wait?: ProviderRoundOptions['wait'];
  /** Opens models. Default: the AI SDK's. */
  readonly open?: ProviderRoundOptions['open'];
}

type CompactedTurn = Pick<Turn, 'id' | 'log' | 'settings' | 'signal' | 'status'> & Partial<Pick<Turn, 'usage'>>;

const SUMMARY_TIMEOUT_MS = 300_000;
/** Maximum number of times that a refused request is sent again, each time without another part. */
const MAX_REMEDIES = 8;

/** Makes the backend. Nothing is loaded, and no provider asked, before a turn runs. */
export function modelBackend(options: ModelBackendOptions): Backend {
  return new ModelBackend(options);
}

class ModelBackend implements Backend {
  readonly name = 'model';
  readonly label = 'A model of a provider, with the tools of the environment';
  readonly continues = true;
  readonly #options: ModelBackendOptions;
  readonly #providers: Providers;
  readonly #limits: RequestLimits;
  readonly #meter = new ContextMeter();
  /** Windows that providers named when a request did not fit, by provider and model. */
  readonly #windows = new Map<string, number>();
  /** Sessions whose last request exceeded the context window, despite the estimate. */
  readonly #overflowed = new Set<string>();
  readonly #refusals = new Refusals();
  readonly #turns = new Turns();

  constructor(options: ModelBackendOptions) {
    this.#options = options;
    this.#providers = options.providers;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
  }

  preflight(settings: SessionSettings): void {
    this.#choice(settings);
  }

  modelOf(settings: SessionSettings): ReturnType<Backend['modelOf']> {
    const choice = this.#providers.choose(settings);
    if (choice === undefined) return null;
    const { model, provider, thinking, openRouterProvider } = choice;
    return { model, provider, thinking, ...(openRouterProvider !== 'any' && { openRouterProvider }) };
  }

  async compact(turn: CompactedTurn, reason: Compaction['reason']): Promise<Compaction> {
    if (reason === 'manual' && this.#providers.choose(turn.settings) === undefined) {
      throw fail('not_configured', 'select a model first before running /compress');
    }
    return this.#compact(turn, this.#choice(turn.settings), reason);
  }

  async run(turn: Turn): Promise<TurnOutcome> {
    const { log, cwd, principal } = turn;
    const { id } = log.record;
    const choice = this.#choice(turn.settings);
    refuseAudio(turn.prompt, choice);
    const system = (await this.#options.instructionsFor?.(turn)) ?? '';
    const { environments, recallEntries = 0 } = this.#options;
    const place = { cwd, principal };
    await environments.deliver(turn);
    if (recallEntries > 0) await recallFor(turn, environments.recallOf(id, place), recallEntries);
    const tools = withApprovals(environments.for(id, place, turn), turn);
    const planned = withPlan(tools, turn, (entries, ended) => environments.putPlan(id, place, entries, ended));
    const toolbox = withQuestions(planned, turn);
    // A compaction that did not make enough room would not the next time either.
    const room = { hopeless: false };
    const stream = (request: RoundRequest) => this.#stream(turn, choice, request, room);
    try {
      const outcome = await runRounds(turn, { stream, continues: true }, toolbox, { system });
      if (outcome.stopReason === 'refusal') this.#refusals.unanswered(turn, choice);
      return outcome;
    } catch (thrown) {
      this.#learn(id, choice, thrown);
      throw this.#refusals.ended(turn, choice, asError(thrown));
    } finally {
      // An aborted turn needs no estimate: its session may be closed.
      if (!turn.signal.aborted) this.#estimated(turn, choice);
    }
  }

  release(sessionId: string): void {
    this.#meter.forget(sessionId);
    this.#overflowed.delete(sessionId);
    this.#refusals.forget(sessionId);
    this.#options.environments.release(sessionId);
  }

  #choice(settings: SessionSettings): ModelChoice {
    const providers: Providers = this.#providers;
    const choice = providers.choose(settings);
    providers.check(choice);
    return choice;
  }

  /** Streams a round. If the provider refuses a part of the request, the round leaves it out and asks again. */
  async *#stream(
    turn: Turn,
    choice: ModelChoice,
    request: RoundRequest,
    room: { hopeless: boolean },
  ): AsyncGenerator<ModelPart, void, undefined> {
    const { log } = turn;
    for (let remedies = 0; ; remedies += 1) {
      let history = request.history;
      let sent: RoundInput | undefined;
      let begun = false;
      try {
        yield* providerRound({
          ...this.#round(choice, log.record.id, request.signal),
          input: async () => {
            sent = await this.#input(turn, choice, request, room);
            // The list grows in place; the count covers the present items.
            history = [...log.record.history];
            return sent;
          },
          begun: () => {
            begun = true;
          },
          counted: (used) => this.#meter.counted(log.record.id, history, used),
          debug: (stage, data) => turn.debug(stage, data),
        });
        this.#refusals.taken(turn);
        return;
      } catch (thrown) {
        if (sent === undefined || begun || remedies === MAX_REMEDIES || request.signal.aborted) throw thrown;
        const refused = { input: sent, tools: request.tools, isLast: remedies === MAX_REMEDIES - 1 };
        if (!this.#refusals.leaveOut(turn, choice, asError(thrown), refused)) throw thrown;
        turn.debug('left_out', { reason: asError(thrown).message });
      }
    }
  }

  async #input(
    turn: Turn,
    choice: ModelChoice,
    { tools, system, turnId, partial }: RoundRequest,
    room: { hopeless: boolean },
  ): Promise<RoundInput> {
    const { log, cwd } = turn;
    const { id } = log.record;
    const { provider, model } = choice;
    const refused = this.#refusals.toolsOf(id, choice);
    const names = await toolNamesInTurns(tools, { provider, model, refused }, this.#turns);
    if (names.leftOut.length > 0) notedOnce(turn, toolsNotice(provider, names.leftOut));
    const now = this.#options.now ?? Date.now;
    const prompt = systemPrompt({ cwd, now: now(), hasTools: names.tools.length > 0, added: system });
    this.#meter.fixed(id, { system: prompt, tools: names.tools });
    const limit = contextLimit(this.#window(choice));
    if (!room.hopeless && this.#meter.estimate(id, log.record.history).tokens > limit) {
      turn.status('compressing context...');
      const { estimated_tokens_after } = await this.#compact(turn, choice, 'auto');
      room.hopeless = estimated_tokens_after > limit;
      turn.status(choice.thinking === 'OFF' ? 'drafting response...' : 'thinking...');
    }
    this.#estimated(turn, choice);
    const messages = messagesOf(log.record.history, {
      provider: choice.provider,
      model: choice.model,
      names,
      turnId,
      partial,
      onLeftOut: ({ path }, reason) => notedOnce(turn, `${path} is left out for ${provider}: ${reason}`),
    });
    return { system: prompt, messages, names };
  }

  async #compact(turn: CompactedTurn, choice: ModelChoice, reason: Compaction['reason']): Promise<Compaction> {
    const { log, id } = turn;
    const sessionId = log.record.id;
    const compaction = await compactHistory({
      log,
      meter: this.#meter,
      reason,
      windowTokens: this.#window(choice),
      turnId: id === '' ? undefined : id,
      ask: (question) => this.#ask(turn, choice, question),
      now: this.#options.now ?? Date.now,
      always: this.#overflowed.has(sessionId),
    });
    if (compaction.compressed) {
      this.#overflowed.delete(sessionId);
      this.#estimated(turn, choice);
    }
    return compaction;
  }

  /** Asks for a summary: no tools, as little thinking as the model can do, and a time limit over all attempts. */
  async #ask(turn: CompactedTurn, choice: ModelChoice, question: SummaryQuestion): Promise<string> {
    const { log, signal } = turn;
    const ended = new AbortController();
    const abort = (): void => ended.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    const timeoutMs = this.#options.summaryTimeoutMs ?? SUMMARY_TIMEOUT_MS;
    const late = (): void =>
      ended.abort(fail('provider_error', 'the summary took too long', { reason: 'timeout', timeout_ms: timeoutMs }));
    const timer = setTimeout(late, timeoutMs);
    try {
      let text = '';
      const parts = providerRound({
        ...this.#round({ ...choice, thinking: leastThinking(choice) }, log.record.id, ended.signal),
        input: () => ({
          system: question.system,
          messages: [{ role: 'user', content: [{ type: 'text', text: question.text }] }],
          names: toolNames([]),
          maxOutputTokens: question.maxOutputTokens,
        }),
      });
      for await (const part of parts) {
        if (part.type === 'answer') text += part.text;
        else if (part.type === 'usage') turn.usage?.(part.usage);
        else if (part.type === 'retry') {
          const { attempt, maxAttempts, delayMs, reason } = part;
          const retry = { attempt, max_attempts: maxAttempts, delay_ms: Math.round(delayMs), reason };
          turn.status(`capacity unavailable; retrying (${attempt}/${maxAttempts})...`, { retry });
        }
      }
      return text;
    } catch (thrown) {
      throw asError(ended.signal.aborted ? ended.signal.reason : thrown);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  }

  #round(choice: ModelChoice, sessionId: string, signal: AbortSignal): Omit<ProviderRoundOptions, 'input'> {
    const { open = openModel, monotonic = () => performance.now(), wait } = this.#options;
    return { choice, providers: this.#providers, open, sessionId, limits: this.#limits, signal, now: monotonic, wait };
  }

  /** Returns context window of a model in tokens: from its provider, the catalogue, or a default. */
  #window({ provider, model, option }: ModelChoice): number {
    return this.#windows.get(`${provider}/${model}`) ?? option?.contextWindowTokens ?? UNKNOWN_WINDOW;
  }

  /** Stores the window that a provider named for a request that did not fit. */
  #learn(sessionId: string, choice: ModelChoice, thrown: unknown): void {
    const { code, detail } = asError(thrown);
    if (code !== 'provider_error' || detail.reason !== 'context_overflow') return;
    this.#overflowed.add(sessionId);
    const named = detail.context_window_tokens;
    if (typeof named === 'number') this.#windows.set(`${choice.provider}/${choice.model}`, named);
  }

  /** Reports the fill level of the context, when it changed. */
  #estimated({ log, id }: Pick<Turn, 'log' | 'id'>, choice: ModelChoice): void {
    const estimate = this.#meter.estimate(log.record.id, log.record.history);
    if (!this.#meter.isNews(log.record.id, estimate)) return;
    const payload = estimatePayload(estimate, choice.provider, this.#window(choice));
    log.emit('session.context.estimate', payload, id === '' ? undefined : id);
  }
}

/** Returns the lowest thinking level of a model. */
function leastThinking({ option }: ModelChoice): Thinking {
  return THINKING_LEVELS.find((level) => option?.supportedThinkingLevels?.includes(level)) ?? 'OFF';
}

/** @throws not_configured for audio that the provider of the model does not take */
function refuseAudio({ images }: Turn['prompt'], { provider, model }: ModelChoice): void {
  const unheard = images.find(({ mimeType }) => isAudio(mimeType) && !takesAudio(provider, mimeType));
  if (unheard === undefined) return;
  const taken = Object.keys(AUDIO_OF_PROVIDERS).filter((name) => takesAudio(name, unheard.mimeType));
  const advice = `choose a model that takes it, of ${taken.join(', ')}: handfast model use ID`;
  throw fail('not_configured', `${provider}/${model} is given no ${unheard.mimeType}; ${advice}`, { provider, model });
}
