/**
 * The meaning of a provider's failure: one error for the caller with the provider's own words and none of its secrets, and
 * whether a retry can help.
 *
 * The SDK's errors hold the whole request; nothing of that, and no credential, is passed on.
 */
import { HandfastError } from '../../../wire/errors.ts';
import type { ModelChoice } from '../../contract/providers.ts';
import { isOverflow, windowNamedIn } from './context-overflow.ts';
import { causesOf, providersWords, type ThrownFacts, thrownFacts } from './thrown-facts.ts';

/** `detail.reason` of a `provider_error`. */
export type FailureReason =
  | 'auth'
  | 'quota'
  | 'rate_limited'
  | 'unavailable'
  | 'unreachable'
  | 'timeout'
  | 'stream_ended'
  | 'unreadable'
  | 'context_overflow'
  | 'refused'
  | 'not_found'
  | 'rejected';

export interface ProviderFailure {
  readonly error: HandfastError;
  readonly reason: FailureReason;
  /**
   * `capacity`: the provider responds and has no capacity, or its connection was lost. `broken`: it accepted the request and
   * did not finish, or accepts no connection; a few attempts are enough to see that it never does. `never`: the same request
   * fails again.
   */
  readonly retry: 'capacity' | 'broken' | 'never';
  /** Time that the provider asked to wait. */
  readonly retryAfterMs?: number;
  /** States that no connection was made, and to which address. */
  readonly unreached?: string;
}

/** Longest message that is passed on, in characters. */
const MAX_MESSAGE = 600;
const CAPACITY: ReadonlySet<FailureReason> = new Set(['rate_limited', 'unavailable', 'unreachable']);
const BROKEN: ReadonlySet<FailureReason> = new Set(['timeout', 'stream_ended', 'unreadable']);

/** Codes and words of filters that stop a prompt. */
const FILTERED =
  /content_?filter|content_?policy|responsible_?ai|invalid_prompt|prompt_?blocked|data_inspection_failed|moderation|usage policy|content management policy|flagged|prohibited_content/i;

/** Words of servers that answer 500 for the content of a request: they would refuse it each time. */
const ALWAYS_REFUSED =
  /not support|unsupported|jinja|grammar|at row \d+, column \d+|unrecognized schema|failed to parse (?:messages|tools|input)/i;

/** Reads the value a request was ended by. `token` is never repeated. `now` is in epoch milliseconds. */
export function failureOf(thrown: unknown, choice: ModelChoice, token: string, now = Date.now()): ProviderFailure {
  // The reply passed a bound of Handfast, as it would again; the SDK wraps the error that ends a body.
  const bound = causesOf(thrown).find((cause) => cause instanceof HandfastError);
  if (bound !== undefined) {
    return failure(choice, 'unreadable', (bound as unknown as HandfastError).message, { shouldRetry: false });
  }
  const facts = thrownFacts(thrown, now);
  const words = redacted(providersWords(facts), token);
  const reason = reasonOf(facts, words, choice.provider);
  return failure(choice, reason, words, facts);
}

/** Returns a failure that the provider did not report. */
export function brokenAnswer(
  choice: ModelChoice,
  reason: 'timeout' | 'stream_ended' | 'unreadable',
  message: string,
): ProviderFailure {
  return failure(choice, reason, message, {});
}

function failure(
  { provider, model }: ModelChoice,
  reason: FailureReason,
  message: string,
  { status, retryAfterMs, shouldRetry, unconnected, item }: Partial<ThrownFacts>,
): ProviderFailure {
  const windowTokens = reason === 'context_overflow' ? windowNamedIn(message) : undefined;
  const wanted = CAPACITY.has(reason) ? 'capacity' : BROKEN.has(reason) ? 'broken' : 'never';
  const isUnconnected = reason === 'unreachable' && unconnected !== undefined;
  // The provider's own advice wins, except for requests that it refuses for good: those are never retried.
  const planned = isUnconnected ? unconnected.retry : wanted;
  const retry = shouldRetry === false ? 'never' : planned;
  const detail = {
    provider,
    model,
    reason,
    ...(status !== undefined && { status }),
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
    ...(windowTokens !== undefined && { context_window_tokens: windowTokens }),
    ...(isUnconnected && unconnected.address !== '' && { address: unconnected.address }),
    ...(reason === 'rejected' && item !== undefined && { item }),
  };
  // Without the cause: the SDK's errors carry the request, its headers included.
  const at = reason === 'rejected' && item !== undefined && !message.includes(item) ? ` (at ${item})` : '';
  const error = new HandfastError('provider_error', `${message}${at}${adviceOn(reason, provider)}`, {
    detail,
    retryable: retry !== 'never',
  });
  return { error, reason, retry, retryAfterMs, ...(isUnconnected && { unreached: unconnected.words }) };
}

/** Returns advice for the user about a failure that a retry does not mend; '' = the provider's words are all that is known. */
function adviceOn(reason: FailureReason, provider: string): string {
  switch (reason) {
    case 'auth':
      return provider === 'antigravity' || provider === 'openai'
        ? `; ${provider} did not accept the credential: handfast auth login ${provider} replaces it`
        : `; ${provider} did not accept the key: handfast auth login ${provider} stores another`;
    case 'quota':
      return `; the account at ${provider} has no credit left: handfast model use ID chooses a model of another provider`;
    case 'not_found':
      return '; handfast model ls lists the models, handfast model use ID chooses one';
    default:
      return '';
  }
}

function reasonOf(facts: ThrownFacts, words: string, provider: string): FailureReason {
  const { status, code } = facts;
  if (status !== 429 && isOverflow(words, code)) return 'context_overflow';
  if (/insufficient_quota|billing|payment_required|credit/.test(code) || status === 402) return 'quota';
  if (status === 401 || /authentication|invalid_api_key|api_key_invalid|unauthenticated/.test(code)) return 'auth';
  if (status !== 429 && FILTERED.test(`${code} ${status === 400 ? words : ''}`)) return 'refused';
  // Google reports a wrong key as a bad request.
  if (status === 400 && /api key not valid|api key expired/i.test(words)) return 'auth';
  // OpenRouter's word for a prompt its moderation has stopped; the word of all others for a key without the right.
  if (status === 403) return provider === 'openrouter' ? 'refused' : 'auth';
  if (status === 404) return 'not_found';
  if (status === 429 || /rate_limit|resource_exhausted|too_many_requests/.test(code)) return 'rate_limited';
  if (status === 500 && ALWAYS_REFUSED.test(words)) return 'rejected';
  if (status !== undefined && (status === 408 || status === 409 || (status >= 500 && status !== 501)))
    return 'unavailable';
  if (status === undefined && /overloaded|unavailable|server_error|api_error|internal/.test(code)) return 'unavailable';
  if (facts.endedEarly) return 'stream_ended';
  if (facts.unreachable) return 'unreachable';
  if (facts.unreadable) return 'unreadable';
  if (status === undefined && facts.retryable) return 'unavailable';
  return 'rejected';
}

/**
 * Returns one line without credentials. Some providers repeat a wrong key in parts, so a text that looks like one is removed
 * too.
 */
function redacted(text: string, token: string): string {
  const named = token.length >= 6 ? text.replaceAll(token, '[credential]') : text;
  const line = named
    .replaceAll(/\b(?:sk|pk|rk|key|gsk|xai|AIza)[-_][\w*.-]{6,}/g, '[credential]')
    .replaceAll(/\bAIza[\w*-]{8,}/g, '[credential]')
    .replaceAll(/\bBearer\s+[\w.*-]{8,}/gi, 'Bearer [credential]')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return line.length <= MAX_MESSAGE ? line : `${line.slice(0, MAX_MESSAGE)}…`;
}
