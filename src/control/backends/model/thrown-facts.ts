/**
 * Facts in the value that a failed request to a provider threw: errors of the SDK, of the network, and the many shapes in which
 * providers report a failure in the middle of a stream.
 *
 * Errors are looked at by their members and not by their classes, because each package may bring its own copy of them.
 */

export interface ThrownFacts {
  /** HTTP status, or the value that stands for one in a stream. */
  readonly status?: number;
  /** Every code and type the provider gave, lower case, joined by spaces. */
  readonly code: string;
  readonly message: string;
  /** The failure as the provider sent it, parsed where it is JSON. */
  readonly body: unknown;
  readonly retryAfterMs?: number;
  /** The provider's own advice about a retry. */
  readonly shouldRetry?: boolean;
  /** The SDK's opinion on a retry. */
  readonly retryable: boolean;
  /** The network failed, not the provider. */
  readonly unreachable: boolean;
  /** Set where no connection was made. */
  readonly unconnected?: Unconnected;
  /** The part of the request that the provider names, e.g. `tools[4].function.parameters`. */
  readonly item?: string;
  /** The response does not follow the API's reference. */
  readonly unreadable: boolean;
  /** The answer ended without the provider's last word. */
  readonly endedEarly: boolean;
}

/** An attempt to connect that failed: its address and the cause. */
export interface Unconnected {
  readonly address: string;
  readonly words: string;
  /** `never`: a refused certificate is refused again. */
  readonly retry: 'broken' | 'never';
}

type Members = Readonly<Record<string, unknown>>;

/** Codes of attempts to connect that fail at once. */
const UNCONNECTED: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing accepts connections at this address',
  ENOTFOUND: 'the host is unknown',
  EAI_AGAIN: 'its name cannot be looked up now',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to its network',
  ETIMEDOUT: 'it accepted no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'it accepted no connection in time',
};
/** Causes with which no request is ever made, e.g. a port that is reserved. */
const IMPOSSIBLE = /bad port|invalid url|unknown scheme|url scheme/i;
const UNTRUSTED = /^(?:CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|EPROTO)/;
/** Longest body that is read as text. */
const MAX_LINE = 1_000;
/** Longest name of a part of a request. */
const MAX_ITEM = 120;

const NETWORK = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const UNREADABLE = /^AI_(?:TypeValidation|JSONParse|InvalidResponseData|EmptyResponseBody|NoContentGenerated)/;
/** Deep enough for every known nesting, and an end for a circle. */
const MAX_DEPTH = 5;

/** Returns the facts of a failure. `now` is in epoch milliseconds and turns a date of `Retry-After` into a delay. */
export function thrownFacts(thrown: unknown, now: number): ThrownFacts {
  if (typeof thrown === 'string') return { ...NOTHING, message: thrown };
  const error = membersOf(thrown);
  const body = parsed(error.responseBody) ?? error.data ?? (thrown instanceof Error ? undefined : thrown);
  const codes = new Set<string>();
  collectCodes(body ?? error, codes, 0);
  const chain = causesOf(thrown);
  const headers = membersOf(error.responseHeaders);
  const status = statusOf(error.statusCode) ?? statusIn(body, 0) ?? statusOf(error.code);
  const failedNetwork = chain.some(
    ({ code }) =>
      typeof code === 'string' && (NETWORK.has(code) || code.startsWith('UND_ERR_') || UNTRUSTED.test(code)),
  );
  const unconnected = unconnectedOf(chain);
  const item = itemIn(body, 0);
  return {
    status,
    code: [...codes].join(' ').toLowerCase(),
    message: textOf(error.message) ?? '',
    body,
    retryAfterMs: retryAfter(headers, now) ?? retryDelayIn(body, 0),
    shouldRetry: { true: true, false: false }[String(headers['x-should-retry'])],
    retryable: error.isRetryable === true,
    unreachable:
      status === undefined &&
      (failedNetwork || /^cannot connect to api|^terminated$|socket hang up/i.test(String(error.message))),
    ...(unconnected !== undefined && { unconnected }),
    ...(item !== undefined && { item }),
    unreadable: chain.some(({ name }) => UNREADABLE.test(String(name))),
    endedEarly: chain.some(({ message }) => /ended without a finish reason/i.test(String(message))),
  };
}

/** Returns the failure in the provider's own words; a line made here where it has none that can be read. */
export function providersWords(facts: ThrownFacts): string {
  const { status, message, body, unreachable, unconnected, unreadable, endedEarly } = facts;
  const own = wordsIn(body, 0);
  const upstream = upstreamWords(body);
  if (endedEarly) return "the provider's answer ended early";
  if (own !== undefined) return upstream !== undefined && !own.includes(upstream) ? `${own}: ${upstream}` : own;
  if (unreachable) {
    const refused = unconnected?.words ?? /^Cannot connect to API: (.*)$/s.exec(message)?.[1];
    return refused === undefined
      ? 'the connection to the provider was lost'
      : `the provider cannot be reached: ${refused}; check its address and the network, then run: handfast model test`;
  }
  if (unreadable && status === undefined) return "the provider's answer could not be read";
  // A page of HTML, as gateways send it, is less use than its status.
  if (message !== '' && !unreadable && !isPage(message)) return message;
  return status === undefined ? 'the provider failed the request' : `the provider answered with status ${status}`;
}

const NOTHING: ThrownFacts = {
  code: '',
  message: '',
  body: undefined,
  retryable: false,
  unreachable: false,
  unreadable: false,
  endedEarly: false,
};

const isPage = (text: string): boolean => /^\s*</.test(text);
const membersOf = (value: unknown): Members => (typeof value === 'object' && value !== null ? (value as Members) : {});
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined;

/** Returns the body of an answer; a line of text as it is, and nothing of a page of HTML. */
function parsed(text: unknown): unknown {
  if (typeof text !== 'string' || text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return isPage(text) || text.length > MAX_LINE ? undefined : text;
  }
}

function statusOf(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined;
}

function statusIn(body: unknown, depth: number): number | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const members = membersOf(body);
  return (
    statusOf(members.code) ??
    statusOf(members.status) ??
    (members.error ? statusIn(members.error, depth + 1) : undefined)
  );
}

export function causesOf(thrown: unknown): Members[] {
  const chain: Members[] = [];
  for (
    let next = thrown;
    chain.length < MAX_DEPTH && typeof next === 'object' && next !== null;
    next = membersOf(next).cause
  ) {
    chain.push(next as Members);
  }
  return chain;
}

/** Returns the address and the cause, where no connection was made. */
function unconnectedOf(chain: readonly Members[]): Unconnected | undefined {
  const errors = chain.flatMap((each) => [each, ...(Array.isArray(each.errors) ? each.errors.map(membersOf) : [])]);
  const codes = errors.map(({ code }) => code).filter((code) => typeof code === 'string');
  const code = codes.find((each) => Object.hasOwn(UNCONNECTED, each) || UNTRUSTED.test(each));
  const address = addressOf(errors);
  const place = address === '' ? '' : ` to ${address}`;
  const impossible = errors.map(({ message }) => String(message)).findLast((message) => IMPOSSIBLE.test(message));
  if (code === undefined) {
    if (impossible === undefined) return undefined;
    return { address, words: `no connection${place} (${impossible})`, retry: 'never' };
  }
  if (UNTRUSTED.test(code)) {
    const said = errors.map(({ message }) => message).findLast((message) => typeof message === 'string');
    return { address, words: `no secure connection${place} (${code}: ${said ?? ''})`, retry: 'never' };
  }
  return { address, words: `no connection${place} (${code}: ${UNCONNECTED[code]})`, retry: 'broken' };
}

/** Returns the origin of the address: paths and queries may have secrets. */
function addressOf(errors: readonly Members[]): string {
  for (const { url } of errors) {
    if (typeof url === 'string' && URL.canParse(url)) return new URL(url).origin;
  }
  const { address, hostname, port } = errors.find(({ address, hostname }) => address ?? hostname) ?? {};
  return [address ?? hostname, port].filter((part) => part !== undefined).join(':');
}

/** Returns the part of a request that is named beside the message: OpenAI's `param`. */
function itemIn(body: unknown, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const { param, error } = membersOf(Array.isArray(body) ? body[0] : body);
  if (typeof param === 'string' && param !== '') return param.slice(0, MAX_ITEM).toWellFormed();
  return error === undefined ? undefined : itemIn(error, depth + 1);
}

/** Collects codes, which stand below `error`, below `response.error`, or in Google's `details`. */
function collectCodes(value: unknown, into: Set<string>, depth: number): void {
  if (depth > MAX_DEPTH) return;
  const { code, type, status, reason, error, response, details, metadata, error_type } = membersOf(value);
  for (const word of [code, type, status, reason, error_type])
    if (typeof word === 'string' && word !== 'error') into.add(word);
  for (const inner of [error, response, metadata, ...(Array.isArray(details) ? details : [])])
    collectCodes(inner, into, depth + 1);
}

function wordsIn(body: unknown, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return undefined;
  if (Array.isArray(body)) return wordsIn(body[0], depth + 1);
  if (typeof body === 'string') return isPage(body) ? undefined : textOf(body);
  const { message, error, detail, response, msg, loc } = membersOf(body);
  // FastAPI names the place apart.
  if (typeof msg === 'string' && Array.isArray(loc)) return `${loc.join('.')}: ${msg}`;
  if (typeof error === 'object' && error !== null) return wordsIn(error, depth + 1);
  if (typeof response === 'object' && response !== null) return wordsIn(response, depth + 1);
  return (
    textOf(message) ??
    textOf(error) ??
    textOf(detail) ??
    (Array.isArray(detail) ? wordsIn(detail, depth + 1) : undefined)
  );
}

/** Returns the provider's own error. OpenRouter passes it on as `metadata.raw`; its message is then only a heading. */
function upstreamWords(body: unknown): string | undefined {
  const { raw } = membersOf(membersOf(membersOf(body).error ?? body).metadata);
  if (typeof raw !== 'string') return undefined;
  return wordsIn(parsed(raw), 0) ?? textOf(raw);
}

function retryAfter(headers: Members, now: number): number | undefined {
  const milliseconds = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (milliseconds >= 0) return milliseconds;
  const given = textOf(headers['retry-after']);
  if (given === undefined) return undefined;
  const seconds = Number(given);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const at = Date.parse(given);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

/** Reads google's `RetryInfo`: `"retryDelay": "17s"`. */
function retryDelayIn(body: unknown, depth: number): number | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const { retryDelay, error, details } = membersOf(Array.isArray(body) ? body[0] : body);
  const seconds = typeof retryDelay === 'string' ? /^([\d.]+)s$/.exec(retryDelay)?.[1] : undefined;
  if (seconds !== undefined) return Math.round(Number(seconds) * 1000);
  for (const inner of [error, ...(Array.isArray(details) ? details : [])]) {
    const delay = inner === undefined ? undefined : retryDelayIn(inner, depth + 1);
    if (delay !== undefined) return delay;
  }
  return undefined;
}
