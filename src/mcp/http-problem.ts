/**
 * Reads an error response over HTTP: whether the server has forgotten the session, and the reason in one line. Pure.
 *
 * The protocol has 404 for a session that a server does not know. Servers reply with 400, 401, 410 or 5xx too, as their
 * SDK and their gateway do, and some with an error of JSON-RPC; the text of these errors decides.
 */
import { isObject } from '../wire/json.ts';

const SESSION = '(?:mcp[ _-]?)?session(?:[ _-]?id)?';
const LACKING = '(?:no|no valid|no active|unknown|invalid|invalid or expired|expired|missing|stale|bad)';
const GONE =
  "(?:not (?:be )?(?:found|initiali[sz]ed|exist|valid|known|recogni[sz]ed|active|available)|unknown|invalid|expired|missing|required|terminated|closed|does(?: not|n't) exist|no longer|lost|gone)";
/** Anywhere in the text of an error. */
const FORGOTTEN = new RegExp(
  String.raw`\b${LACKING} ${SESSION}\b|\b${SESSION}\b[^.\n]{0,80}\b${GONE}\b|\bsession[_-]?(?:not[_-]?found|expired|invalid|terminated)\b|\bnot initiali[sz]ed\b`,
  'i',
);
/** The whole message of an error of JSON-RPC: the error of a tool may name a session, too. */
const FORGOTTEN_MESSAGE = new RegExp(
  String.raw`^(?:[\w ]{1,20}: )?(?:${LACKING} ${SESSION}(?: provided)?|${SESSION}(?:[: ]+[\w-]{8,64})? (?:was |is |has )?${GONE}|(?:server )?not initiali[sz]ed|received request before initiali[sz]ation was complete)\.?$`,
  'i',
);
const MAX_READ = 4_096;
const MAX_LINE = 240;

/** Returns true if an error response means that the session is not known. */
export const forgetsSession = (status: number, body: string): boolean =>
  status === 404 || status === 410 || (status >= 400 && FORGOTTEN.test(body.slice(0, MAX_READ)));

/** Returns true if the message of a JSON-RPC error, under a status of success, means that the session is not known. */
export const messageForgetsSession = (message: string): boolean =>
  message.length <= MAX_LINE && FORGOTTEN_MESSAGE.test(message);

/** Returns the reason of an error response in one line: `HTTP 502 Bad Gateway: upstream is down`. */
export function lineOf(status: number, statusText: string, body: string): string {
  const words = wordsOf(body).replaceAll(/\s+/g, ' ').trim();
  const name = `HTTP ${status}${statusText === '' ? '' : ` ${statusText.slice(0, 64)}`}`;
  if (words === '' || words === statusText) return name;
  return `${name}: ${words.length > MAX_LINE ? `${words.slice(0, MAX_LINE)}…` : words}`;
}

function wordsOf(body: string): string {
  const text = body.slice(0, MAX_READ * 4).trim();
  if (text.startsWith('{')) {
    try {
      return saidIn(JSON.parse(text)) ?? text;
    } catch {
      return text;
    }
  }
  if (!text.startsWith('<')) return text;
  const title = /<(title|h1)[^>]{0,200}>([^<]{1,500})</i.exec(text)?.[2];
  return title ?? text.replaceAll(/<[^>]{0,1000}>?/g, ' ');
}

/** Returns the reason in an object, under the names that frameworks use. */
function saidIn(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (!isObject(value) || depth > 2) return undefined;
  for (const key of ['error_description', 'message', 'detail', 'error', 'title', 'reason']) {
    const said = Object.hasOwn(value, key) ? saidIn(value[key], depth + 1) : undefined;
    if (said !== undefined) return said;
  }
  return undefined;
}

const MAX_ISSUES = 3;

interface ClientProblem {
  readonly message: string;
  /** The server, or a service behind it, may have run the request. */
  readonly mayHaveRun: boolean;
}

/**
 * Returns the reason of an error of the official client in one line: an error response, or a result that does not match
 * its schema, whose messages may be long. Undefined for another error.
 */
export function clientProblem(thrown: unknown): ClientProblem | undefined {
  const { code, message, data, status, statusText } = (thrown ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof code !== 'string' || typeof message !== 'string') return undefined;
  if (typeof status === 'number') {
    const text = isObject(data) && typeof data.text === 'string' ? data.text : '';
    // A redirect that is not followed is explained by the client.
    if (status < 400) return { message: message.replaceAll(/\s+/g, ' ').slice(0, MAX_LINE), mayHaveRun: false };
    const line = lineOf(status, typeof statusText === 'string' ? statusText : '', text);
    return { message: `the server replied ${line}`, mayHaveRun: status >= 500 };
  }
  if (code !== 'INVALID_RESULT') return undefined;
  return { message: `the response cannot be read: ${issuesOf(message)}`, mayHaveRun: true };
}

/** Returns a message of the official client in one line; the issues of a schema are printed as JSON in it. */
export function issuesOf(message: string): string {
  const start = message.indexOf('[');
  try {
    const issues = JSON.parse(message.slice(start)) as readonly { path?: readonly unknown[]; message?: unknown }[];
    const lines = issues.slice(0, MAX_ISSUES).map(({ path = [], message: why }) => `/${path.join('/')} ${String(why)}`);
    return `${message.slice(0, start)}${lines.join('; ')}`.replaceAll(/\s+/g, ' ').slice(0, MAX_LINE);
  } catch {
    return message.replaceAll(/\s+/g, ' ').slice(0, MAX_LINE);
  }
}
