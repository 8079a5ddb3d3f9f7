/**
 * Rules of the fleet messages that a schema cannot express: rules between members, and the members whose form is a separate
 * rule (health, artifacts). Much of a TASK_RESULT was written by a language model and is a claim, not a fact.
 *
 * The rules take the members that `reader.ts` has read. Their result is of use only without errors.
 * @see docs/protocol/fleet.md#messages-of-the-protocol
 */
import { type Access, FEATURES, type Feature, HEALTHS, type TaskDispatch } from '../../protocol/fleet.ts';
import type { Findings } from '../../wire/findings.ts';
import type { Members } from '../../wire/strict-json.ts';
import type { Announced, Dispatched, Reported } from './decoded.ts';
import { digestOf } from './digest.ts';
import { canonicalName, hasForbidden, isBlank, isName } from './names.ts';

/** Members that were read, of a message of which some may be missing after an error. */
type Unfinished<T> = { -readonly [K in keyof T]?: T[K] };

const isFeature = (word: string): word is Feature => (FEATURES as readonly string[]).includes(word);

/** Returns a canonical name, or undefined after a finding about the server `key`. */
function healthName(value: unknown, found: Findings, key: string): string | undefined {
  if (typeof value !== 'string') return found.error('E_FIELD_TYPE', '/mcp_health', key);
  return isName(value) ? canonicalName(value) : found.error('E_FORMAT', '/mcp_health', key);
}

/**
 * Returns the health of each configured server. A server without an entry is `unknown`; an entry without a server is ignored.
 */
function readHealth(stated: Members, servers: readonly string[], found: Findings): ReadonlyMap<string, string> {
  const where = '/mcp_health';
  const reported = new Map<string, string>();
  for (const [key, value] of Object.entries(stated)) {
    if (value === null || value === undefined) continue;
    const server = healthName(key, found, key);
    const word = healthName(value, found, key);
    if (server === undefined || word === undefined) continue;
    if (!(HEALTHS as readonly string[]).includes(word)) found.warn('W_UNKNOWN_ENUM', where, key);
    if (!servers.includes(server)) found.warn('W_HEALTH_UNLISTED', where, key);
    // Of two spellings of one server, the one that is not ok wins.
    if ((reported.get(server) ?? 'ok') === 'ok') reported.set(server, word);
  }
  for (const server of servers) if (!reported.has(server)) found.warn('W_HEALTH_MISSING', where, server);
  return new Map(servers.map((server) => [server, reported.get(server) ?? 'unknown']));
}

function finishAnnounce(read: Unfinished<Announced>, _message: Members, found: Findings): void {
  const versions = read.protocol_versions ?? [];
  read.protocol_versions = versions.length === 0 ? [read.protocol_version as string] : versions;
  read.features = (read.features ?? []).filter(isFeature);
  const stated = (read.mcp_health ?? {}) as unknown as Members;
  read.mcp_health = readHealth(stated, read.mcp_servers ?? [], found);
}

/** Capabilities that change nothing in a repository. */
const READING: ReadonlySet<string> = new Set(['browser', 'search', 'read', 'web', 'fetch']);

/** Returns the default access of a task: `write`, unless all its required tools only read. */
const accessOf = (capabilities: readonly string[]): Access =>
  capabilities.length > 0 && capabilities.every((capability) => READING.has(capability)) ? 'read' : 'write';

function finishDispatch(read: Unfinished<Dispatched>, message: Members, found: Findings, nowMs: number): void {
  if (read.deadline && Date.parse(read.deadline) <= nowMs) found.warn('W_DEADLINE_PAST', '', 'deadline');
  read.access ??= accessOf(read.required_capabilities ?? []);
  // Over the message as it came, with the members that no schema names.
  if (found.errors.length === 0) read.digest = digestOf(message as unknown as TaskDispatch);
}

/** True for an address that an operator may be shown. */
const isWebAddress = (text: string): boolean =>
  /^https?:\/\/[^\s<>"]+$/i.test(text) && !hasForbidden(text) && URL.canParse(text);

/** True for a path that looks to be below the repository. */
function staysInside(path: string): boolean {
  if (isBlank(path) || hasForbidden(path)) return false;
  if (/^(?:[/\\~]|[A-Za-z]:)/.test(path)) return false;
  return !path.split(/[/\\]/).includes('..');
}

/** Artifacts by name: all of them, `pr` and `files_changed` only as far as they can be used. */
function readArtifacts(artifacts: Members, found: Findings): ReadonlyMap<string, unknown> {
  const all = new Map(Object.entries(artifacts));
  const { pr, files_changed: files } = artifacts;
  if (typeof pr !== 'string' || !isWebAddress(pr)) {
    all.delete('pr');
    if (typeof pr === 'string') found.warn('W_ARTIFACT_URL', '/artifacts', 'pr');
    else if (pr !== undefined && pr !== null) found.error('E_FIELD_TYPE', '/artifacts', 'pr');
  }
  if (Array.isArray(files)) {
    const where = '/artifacts/files_changed';
    const usable = files.filter((file, index) => {
      if (typeof file !== 'string') found.error('E_FIELD_TYPE', where, index);
      else if (staysInside(file)) return true;
      else found.warn('W_ARTIFACT_PATH', where, index);
      return false;
    });
    all.set('files_changed', usable);
  } else {
    all.delete('files_changed');
    if (files !== undefined && files !== null) found.error('E_FIELD_TYPE', '/artifacts', 'files_changed');
  }
  return all;
}

const visible = (text: unknown): string | null => (typeof text === 'string' && !isBlank(text) ? text : null);

/** Returns the member `error` as writers in the field have it: a text, or an object with a `message`. */
const errorText = ({ error }: Members): string | null =>
  visible(typeof error === 'object' && error !== null ? (error as Members).message : error);

function finishResult(read: Unfinished<Reported>, message: Members, found: Findings): void {
  const { status, tokens_spent: tokens = null } = read;
  if (message.tokens_spent === undefined || message.tokens_spent === null) {
    found.warn('W_TOKENS_UNKNOWN', '', 'tokens_spent');
  }
  const steps = (read.next_steps ?? []).filter((step) => !isBlank(step));
  const reason = visible(read.blocked_reason);
  const failure = visible(message.error_summary) ?? errorText(message) ?? visible(read.summary) ?? reason;
  read.next_steps = steps;
  read.blocked_reason = status === 'done' ? null : reason;

  if (status === 'blocked') {
    if (reason === null) found.error('E_BLOCKED_REASON', '', 'blocked_reason');
    if (tokens !== null && tokens > 0) found.warn('W_BLOCKED_SPENT', '', 'tokens_spent');
  } else if (status === 'partial') {
    if (steps.length === 0) found.error('E_PARTIAL_NEXT_STEPS', '', 'next_steps');
  } else if (status === 'error') {
    if (failure === null) found.error('E_ERROR_SUMMARY', '', 'error_summary');
    else read.error_summary = failure;
  } else if (status === 'done' && reason !== null) found.warn('W_REASON_IGNORED', '', 'blocked_reason');

  const all = readArtifacts((read.artifacts as Members | null | undefined) ?? {}, found);
  const files = all.get('files_changed') as readonly string[] | undefined;
  read.artifacts = { pr: (all.get('pr') as string | undefined) ?? null, files_changed: files ?? [] };
  read.more_artifacts = all;
}

/** Completes the members read of a message, by its type. */
export const rules = {
  SESSION_ANNOUNCE: finishAnnounce,
  TASK_DISPATCH: finishDispatch,
  TASK_RESULT: finishResult,
} as const;
