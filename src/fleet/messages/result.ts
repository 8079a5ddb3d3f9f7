/**
 * Reads TASK_RESULT: how a task ended. Much of it was written by a language model and is a claim, not a fact.
 *
 * Called by `decode.ts`.
 * @see docs/protocol/fleet.md#task_result
 */
import { type Blocked, type Envelope, STATUSES, type Usage, type UsageSource } from '../../protocol/fleet.ts';
import type { Reported } from './decoded.ts';
import { ROOT_FIELDS } from './envelope.ts';
import type { Findings } from './findings.ts';
import { hasForbidden, isBlank } from './names.ts';
import {
  amount,
  count,
  filled,
  flag,
  id,
  may,
  need,
  object,
  objectOf,
  oneOf,
  optional,
  type Read,
  required,
  seconds,
  text,
  texts,
} from './read.ts';
import type { Members } from './strict-json.ts';

const ROOT = new Set<string>([
  ...ROOT_FIELDS,
  'task_id',
  'status',
  'tokens_spent',
  'next_steps',
  'blocked_reason',
  'error_summary',
  'error',
  'summary',
  'artifacts',
  'blocked',
  'usage',
  'answer',
  'prose',
  'conformance',
]);

const status = oneOf(STATUSES);

const blocked = objectOf<Blocked>({
  code: need(filled),
  retryable: need(flag),
  missing: may(texts),
  retry_after_s: may(seconds),
});

const SOURCES = ['measured', 'provider', 'claimed', 'unknown'] as const satisfies readonly UsageSource[];

/** Where the figures come from; a word nobody here knows vouches for nothing. */
const source: Read<UsageSource> = (value, found, where, key) => {
  const word = text(value, found, where, key);
  if (word === undefined) return undefined;
  const known = SOURCES.find((one) => one === word);
  if (known === undefined) found.warn('W_UNKNOWN_ENUM', where, key);
  return known ?? 'unknown';
};

const figures = objectOf<Partial<Usage>>({
  source: may(source),
  input: may(count),
  output: may(count),
  reasoning: may(count),
  cache_read: may(count),
  cache_write: may(count),
  cost_usd: may(amount),
  claimed: may(count),
});

/** A link an operator may be shown. */
function isWebAddress(link: string): boolean {
  return /^https?:\/\/[^\s<>"]+$/i.test(link) && !hasForbidden(link) && URL.canParse(link);
}

/** A path below the repository, by its looks. */
function staysInside(path: string): boolean {
  if (isBlank(path) || hasForbidden(path)) return false;
  if (/^(?:[/\\~]|[A-Za-z]:)/.test(path)) return false;
  return !path.split(/[/\\]/).includes('..');
}

interface Artifacts {
  readonly pr: string | null;
  readonly files_changed: readonly string[];
  /** Every member, the two above only where they can be used. */
  readonly all: ReadonlyMap<string, unknown>;
}

function readFiles(artifacts: Members, found: Findings): readonly string[] | null {
  const where = '/artifacts/files_changed';
  const path: Read<string> = (value, _found, _where, index) => {
    const read = text(value, found, where, index);
    if (read === undefined || staysInside(read)) return read;
    found.warn('W_ARTIFACT_PATH', where, index);
    return undefined;
  };
  const { files_changed: files } = artifacts;
  if (files === undefined || files === null) return null;
  if (!Array.isArray(files)) {
    found.error('E_FIELD_TYPE', '/artifacts', 'files_changed');
    return null;
  }
  return files.map((file, index) => path(file, found, where, index)).filter((file) => file !== undefined);
}

function readArtifacts(message: Members, found: Findings): Artifacts {
  const artifacts = optional(object, message, 'artifacts', found, '');
  if (artifacts === null) return { pr: null, files_changed: [], all: new Map() };
  let pr = optional(text, artifacts, 'pr', found, '/artifacts');
  if (pr !== null && !isWebAddress(pr)) {
    found.warn('W_ARTIFACT_URL', '/artifacts', 'pr');
    pr = null;
  }
  const files = readFiles(artifacts, found);
  const all = new Map(Object.entries(artifacts));
  if (pr === null) all.delete('pr');
  if (files === null) all.delete('files_changed');
  else all.set('files_changed', files);
  return { pr, files_changed: files ?? [], all };
}

/** A text with something in it, or null. */
function optionalFilled(message: Members, key: string, found: Findings): string | null {
  const read = optional(text, message, key, found, '');
  return read === null || isBlank(read) ? null : read;
}

/** The member `error` as writers in the field have it: a text, or an object with a `message`. */
function errorText({ error }: Members): string | null {
  const inner = typeof error === 'object' && error !== null ? (error as Members).message : error;
  return typeof inner === 'string' && !isBlank(inner) ? inner : null;
}

function readUsage(message: Members, found: Findings): Usage | null {
  const usage = optional(figures, message, 'usage', found, '');
  return usage === null ? null : { ...usage, source: usage.source ?? 'unknown' };
}

/** The result, normalised. Of use only when nothing was found wrong. */
export function readResult(message: Members, version: string, envelope: Envelope, found: Findings): Reported {
  found.unknown(message, ROOT, '');
  const taskId = required(id, message, 'task_id', found, '') ?? '';
  const ended = required(status, message, 'status', found, '');

  const tokens = optional(count, message, 'tokens_spent', found, '');
  if (message.tokens_spent === undefined || message.tokens_spent === null) {
    found.warn('W_TOKENS_UNKNOWN', '', 'tokens_spent');
  }
  const steps = (optional(texts, message, 'next_steps', found, '') ?? []).filter((step) => !isBlank(step));
  let reason = optionalFilled(message, 'blocked_reason', found);
  const stated = optionalFilled(message, 'error_summary', found);
  const summary = optional(text, message, 'summary', found, '');
  const saying = summary === null || isBlank(summary) ? null : summary;
  const failure = stated ?? errorText(message) ?? saying ?? reason;

  if (ended === 'blocked') {
    if (reason === null) found.error('E_BLOCKED_REASON', '', 'blocked_reason');
    if (tokens !== null && tokens > 0) found.warn('W_BLOCKED_SPENT', '', 'tokens_spent');
  } else if (ended === 'partial') {
    if (steps.length === 0) found.error('E_PARTIAL_NEXT_STEPS', '', 'next_steps');
  } else if (ended === 'error') {
    if (failure === null) found.error('E_ERROR_SUMMARY', '', 'error_summary');
  } else if (ended === 'done' && reason !== null) {
    found.warn('W_REASON_IGNORED', '', 'blocked_reason');
    reason = null;
  }

  const { pr, files_changed, all } = readArtifacts(message, found);
  return {
    type: 'TASK_RESULT',
    protocol_version: version,
    task_id: taskId,
    status: ended ?? 'error',
    tokens_spent: tokens,
    next_steps: steps,
    blocked_reason: reason,
    artifacts: { pr, files_changed },
    ...(ended === 'error' && failure !== null && { error_summary: failure }),

    more_artifacts: all,
    summary,
    blocked: optional(blocked, message, 'blocked', found, ''),
    usage: readUsage(message, found),
    answer: message.answer,
    prose: optional(text, message, 'prose', found, ''),
    conformance: optional(text, message, 'conformance', found, ''),
    envelope,
  };
}
