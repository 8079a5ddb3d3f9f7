/**
 * One round asked of a provider: the request, its attempts, and its answer as the parts of a round while it streams.
 *
 * It makes each round of a turn, and summaries. An attempt is only repeated while nothing of its answer was passed on, so no
 * delta is ever sent twice; every wait has a bound and ends with the turn.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { nextTurn } from '../../../base/next-turn.ts';
import type { Usage } from '../../../protocol/session-types.ts';
import { asError, HandfastError } from '../../../wire/errors.ts';
import type { ModelChoice, ProviderAccess, Providers } from '../../contract/providers.ts';
import type { ModelPart } from '../../rounds/round-model.ts';
import { Answer } from './answer.ts';
import { AttemptWatchdog } from './attempt-watchdog.ts';
import { brokenAnswer, failureOf, type ProviderFailure } from './failures.ts';
import type {
  FunctionTool,
  ImagePart,
  ModelCall,
  PromptMessage,
  ProviderModel,
  StreamPart,
  TextPart,
} from './provider-model.ts';
import { inOneMode } from './reasoning.ts';
import { nextAttempt, type RequestLimits } from './request-limits.ts';
import { canThink, requestSettings } from './request-settings.ts';
import type { ToolNames } from './tool-names.ts';

/** Request for a provider. */
export interface RoundInput {
  readonly system: string;
  readonly messages: readonly PromptMessage[];
  readonly names: ToolNames;
  readonly maxOutputTokens?: number;
}

export interface ProviderRoundOptions {
  readonly choice: ModelChoice;
  readonly providers: Pick<Providers, 'access'>;
  /** `received` is called for all parts that come from the provider, also for those that are no part of an answer. */
  readonly open: (
    choice: ModelChoice,
    access: ProviderAccess,
    thinks: boolean,
    received: () => void,
  ) => Promise<ProviderModel>;
  readonly sessionId: string;
  /** Makes the request; called once, when the round starts. */
  readonly input: () => RoundInput | Promise<RoundInput>;
  readonly limits: RequestLimits;
  /** Called when an answer breaks off after a part of it was passed on. */
  readonly begun?: () => void;
  /** Called with the usage that the provider reports. */
  readonly counted?: (used: Usage) => void;
  /** Aborts with the turn; its reason is thrown. */
  readonly signal: AbortSignal;
  /** Receives debug steps. */
  readonly debug?: (stage: string, data: unknown) => void;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Waits; rejects when the signal aborts. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

/** Longest time to read the rest of a finished answer, in milliseconds, so that its connection can be used again. */
const DRAIN_TIMEOUT_MS = 2_000;

const nothing = (): void => {};
const waiting = (ms: number, signal: AbortSignal): Promise<unknown> => delay(ms, undefined, { signal });

/**
 * Asks for one answer. Ends after its `finish` part. Throws `provider_error` (`detail.reason` is the reason) when it failed for
 * good, `not_configured` and `login_failed` as they come, and the signal's reason once that has aborted.
 */
export async function* providerRound(options: ProviderRoundOptions): AsyncGenerator<ModelPart, void, undefined> {
  const { signal, limits, wait = waiting } = options;
  const given = await options.input();
  const { choice, messages } = inOneMode(options.choice, given.messages);
  const input = { ...given, messages };
  for (let attempts = 1, broken = 0; ; attempts += 1) {
    signal.throwIfAborted();
    const answer = new Answer(input.names, choice.provider === 'openrouter');
    const watch = new AttemptWatchdog(signal, { ...limits, now: options.now });
    let token = '';
    let reader: ReadableStreamDefaultReader<StreamPart> | undefined;
    let failure: ProviderFailure;
    try {
      const access = await watch.during(options.providers.access(choice.provider, watch.signal), nothing);
      token = access.token;
      const model = await watch.during(
        options.open(choice, access, canThink(choice), () => watch.received()),
        nothing,
      );
      const call = callOf(input, choice, options.sessionId, access, watch.signal);
      options.debug?.('request', debugView(choice, call));
      const { stream } = await watch.during(model.doStream(call), ({ stream: late }) => void drop(late.getReader()));
      reader = stream.getReader();
      const cancel = (): void => void drop(reader as ReadableStreamDefaultReader<StreamPart>);
      watch.signal.addEventListener('abort', cancel, { once: true });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        watch.received();
        if (value.type === 'error') throw value.error;
        const part = answer.take(value);
        if (part !== undefined) yield* piecesOf(part);
        else if (answer.end !== undefined) break;
      }
      watch.signal.throwIfAborted();
      const brokenOff = brokenEnd(answer, choice);
      if (brokenOff === undefined) {
        options.debug?.('response_final', { finish: answer.end?.finishReason, usage: answer.end?.usage.raw });
        for (const part of answer.rest(choice.provider, choice.model)) {
          if (part.type === 'usage') options.counted?.(part.usage);
          yield part;
        }
        return;
      }
      failure = brokenOff;
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof HandfastError && thrown.code !== 'provider_error') throw thrown;
      failure =
        watch.silentForMs === undefined
          ? failureOf(thrown, choice, token)
          : brokenAnswer(choice, 'timeout', `the provider sent nothing for ${seconds(watch.silentForMs)}`);
    } finally {
      watch.stop();
      if (reader !== undefined) void (answer.end === undefined ? drop(reader) : drain(reader));
    }
    if (answer.delivered) {
      options.begun?.();
      throw failure.error;
    }
    if (failure.retry === 'broken') broken += 1;
    const next = nextAttempt(failure, attempts, broken, limits);
    if (next === undefined) throw failure.error;
    const { error, unreached } = failure;
    yield { type: 'retry', ...next, reason: error.message, ...(unreached !== undefined && { cause: unreached }) };
    await wait(next.delayMs, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw asError(error);
    });
  }
}

/** Characters of a text that are handed on at once. */
const MAX_DELTA = 65_536;

/** Yields a long text in pieces, one for each turn of the event loop: some providers send an answer as a whole. */
async function* piecesOf(part: ModelPart): AsyncGenerator<ModelPart> {
  if ((part.type !== 'answer' && part.type !== 'thought') || part.text.length <= MAX_DELTA) return yield part;
  for (let from = 0; from < part.text.length; ) {
    // No surrogate pair is cut.
    const isCut = /[\ud800-\udbff]$/.test(part.text.slice(from, from + MAX_DELTA));
    const to = from + MAX_DELTA - (isCut ? 1 : 0);
    yield { ...part, text: part.text.slice(from, to) };
    from = to;
    await new Promise<void>(nextTurn);
  }
}

/** The defect of an answer that has ended; undefined = it is complete. */
function brokenEnd({ end }: Answer, choice: ModelChoice): ProviderFailure | undefined {
  const { unified, raw } = end?.finishReason ?? { unified: 'interrupted', raw: undefined };
  // OpenRouter's package calls an answer finished that has only stopped; then the reason has no word of the provider. Several
  // servers give an empty word on the way.
  const stopped = unified === 'interrupted' || raw === '' || (choice.provider === 'openrouter' && raw === undefined);
  if (stopped) return brokenAnswer(choice, 'stream_ended', "the provider's answer ended early");
  if (unified !== 'error') return undefined;
  return brokenAnswer(choice, 'unreadable', `the model's answer went wrong at the provider${raw ? ` (${raw})` : ''}`);
}

/** Stands in for tools where a request has none. */
const NO_TOOL: FunctionTool = {
  type: 'function',
  name: 'no_tool',
  description: 'There are no tools now. Do not call this.',
  inputSchema: { type: 'object', properties: {} },
};

/**
 * True when the request needs tools: Anthropic refuses a conversation with calls of tools that a request without tools
 * continues.
 */
const wantsTools = ({ provider, model }: ModelChoice, messages: readonly PromptMessage[]): boolean =>
  (provider === 'anthropic' || (provider === 'openrouter' && model.startsWith('anthropic/'))) &&
  messages.some(({ role }) => role === 'tool');

function callOf(
  { system, messages, names, maxOutputTokens }: RoundInput,
  choice: ModelChoice,
  sessionId: string,
  { kind }: ProviderAccess,
  abortSignal: AbortSignal,
): ModelCall {
  const settings = requestSettings(choice, sessionId);
  const offered = names.tools.length === 0 && wantsTools(choice, messages) ? [NO_TOOL] : names.tools;
  const tools = offered.length > 0 ? { tools: offered } : {};
  const raw = choice.provider === 'openrouter' ? { includeRawChunks: true } : {};
  if (choice.provider === 'openai' && kind === 'oauth') {
    // The service behind a ChatGPT sign-in wants the system prompt apart, and no limit of the output.
    const openai = { ...settings.providerOptions?.openai, instructions: system.toWellFormed() };
    return { ...settings, ...tools, prompt: messages, providerOptions: { openai }, abortSignal };
  }
  return {
    ...settings,
    ...tools,
    ...raw,
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    prompt: [{ role: 'system', content: system.toWellFormed() }, ...messages],
    abortSignal,
  };
}

/**
 * Returns the request for `session.debug`, with sizes in the place of images. Nothing in it is secret to principals that may
 * read the session.
 */
function debugView(
  { provider, model, thinking }: ModelChoice,
  { abortSignal: _, prompt, ...call }: ModelCall,
): unknown {
  const shownPart = (part: TextPart | ImagePart): unknown =>
    part.type === 'file' ? { type: 'file', mediaType: part.mediaType, base64_length: part.data.data.length } : part;
  const shown = prompt.map((message) => {
    if (message.role === 'user') return { ...message, content: message.content.map(shownPart) };
    if (message.role !== 'tool') return message;
    const results = message.content.map(({ output, ...part }) =>
      output.type === 'content' ? { ...part, output: output.value.map(shownPart) } : { ...part, output },
    );
    return { ...message, content: results };
  });
  return { provider, model, thinking, ...call, prompt: shown };
}

/** Abandons an answer. */
async function drop(reader: ReadableStreamDefaultReader<StreamPart>): Promise<void> {
  await reader.cancel().catch(() => {});
}

/** Reads the rest of a finished answer, for a moment: a connection with an unread rest is closed and not used again. */
async function drain(reader: ReadableStreamDefaultReader<StreamPart>): Promise<void> {
  const timer = setTimeout(() => void drop(reader), DRAIN_TIMEOUT_MS);
  timer.unref();
  try {
    while (!(await reader.read()).done);
  } catch {
    // The answer was complete; how its connection ends does not matter.
  } finally {
    clearTimeout(timer);
  }
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`;
