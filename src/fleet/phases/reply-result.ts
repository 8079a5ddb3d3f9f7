/**
 * Reads a JSON object of a reply as a TASK_RESULT, or gives the reason why it is not one. A language model wrote it, so
 * unambiguous deviations are accepted and each one is reported. The decisive members (status, task) are never guessed.
 * @see docs/fleet-phases.md#result-in-the-reply
 */
import { FLEET_VERSION, STATUSES } from '../../protocol/fleet.ts';
import { isObject } from '../../wire/json.ts';
import type { Members } from '../../wire/strict-json.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Finding, Reported } from '../messages/decoded.ts';
import { canonicalName } from '../messages/names.ts';

/** Outcome for one object: accepted with its leniencies, refused with a reason, or `null`: it is not about this task. */
export type Acceptance =
  | { readonly result: Reported; readonly leniencies: readonly string[] }
  | { readonly result?: undefined; readonly refusal: 'R_TASK_ID_MISMATCH' | 'R_INVALID' }
  | null;

/** Unambiguous synonyms of a status. */
const STATUS_WORDS: ReadonlyMap<string, string> = new Map([
  ...STATUSES.map((status) => [status, status] as const),
  ...['completed', 'complete', 'success', 'succeeded', 'ok'].map((word) => [word, 'done'] as const),
  ...['failed', 'failure', 'fail'].map((word) => [word, 'error'] as const),
  ...['incomplete', 'partially_done', 'partially_completed'].map((word) => [word, 'partial'] as const),
]);

const WRAPPERS = ['task_result', 'TASK_RESULT', 'result'] as const;

/** Members that only the worker sets; a model's values are removed. */
const WORKER_ONLY = ['envelope', 'usage', 'prose', 'conformance'] as const;

/** Reads an object as the result of this task. */
export function acceptResult(object: Members, taskId: string): Acceptance {
  const leniencies = new Set<string>();
  const found = recognised(object, taskId, leniencies) ?? unwrapped(object, taskId, leniencies);
  if (found === undefined) return null;
  const message: Record<string, unknown> = { ...found, type: 'TASK_RESULT' };
  for (const member of WORKER_ONLY) delete message[member];

  if (isAbsent(message.task_id)) {
    leniencies.add('R_TASK_ID_FILLED');
    message.task_id = taskId;
  } else if (message.task_id !== taskId) return { refusal: 'R_TASK_ID_MISMATCH' };
  coerce(message, leniencies);
  const result = validated(message, leniencies);
  return result === undefined ? { refusal: 'R_INVALID' } : { result, leniencies: [...leniencies] };
}

/** Returns the object, if its type is TASK_RESULT, or if it has no type and names this task. */
function recognised(object: Members, taskId: string, leniencies: Set<string>): Members | undefined {
  if (object.type === 'TASK_RESULT') return object;
  const { type, status } = object;
  if (type !== undefined && type !== null) return undefined;
  if (object.task_id !== taskId || typeof status !== 'string' || !STATUS_WORDS.has(canonicalName(status)))
    return undefined;
  leniencies.add('R_UNTYPED');
  return object;
}

function unwrapped(object: Members, taskId: string, leniencies: Set<string>): Members | undefined {
  for (const wrapper of WRAPPERS) {
    const inner = object[wrapper];
    if (!isObject(inner)) continue;
    const found = recognised(inner, taskId, leniencies);
    if (found === undefined) continue;
    leniencies.add('R_UNWRAPPED');
    return found;
  }
  return undefined;
}

const isText = (value: unknown): value is string => typeof value === 'string';

/** Corrects members with one possible meaning. */
function coerce(message: Record<string, unknown>, leniencies: Set<string>): void {
  coerceVersion(message, leniencies);
  const { status, tokens_spent: tokens, next_steps: steps, blocked_reason: reason, artifacts } = message;
  const word = isText(status) ? STATUS_WORDS.get(canonicalName(status)) : undefined;
  if (word !== undefined && word !== status) {
    leniencies.add('R_STATUS_ALIAS');
    message.status = word;
  }
  if (!isAbsent(tokens)) message.tokens_spent = tokensOf(tokens, leniencies);
  if (isText(steps)) {
    leniencies.add('R_STEPS_COERCED');
    message.next_steps = [steps];
  } else if (!isAbsent(steps)) message.next_steps = textsOf(steps, 'R_STEPS_DROPPED', leniencies);
  if (!isAbsent(reason) && !isText(reason)) {
    leniencies.add('R_REASON_DROPPED');
    message.blocked_reason = null;
  }
  if (!isAbsent(artifacts)) message.artifacts = artifactsOf(artifacts, leniencies);
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null;

/** Fills in a missing version, and reads a number or a text such as `v2`. The decoder then refuses another major version. */
function coerceVersion(message: Record<string, unknown>, leniencies: Set<string>): void {
  const { protocol_version: version } = message;
  if (isAbsent(version)) {
    leniencies.add('R_VERSION_FILLED');
    message.protocol_version = FLEET_VERSION;
    return;
  }
  if (isText(version) && /^\d+\.\d+$/.test(version)) return;
  const [, major, minor = '0'] = /^v?(\d+)(?:\.(\d+))?$/i.exec(String(version).trim()) ?? [];
  leniencies.add('R_VERSION_COERCED');
  message.protocol_version = major === undefined ? FLEET_VERSION : `${major}.${minor}`;
}

function tokensOf(tokens: unknown, leniencies: Set<string>): number | null {
  const digits = isText(tokens) && /^\d+$/.test(tokens.trim());
  const figure = digits ? Number(tokens) : tokens;
  if (typeof figure !== 'number' || !Number.isSafeInteger(figure) || figure < 0) {
    leniencies.add('R_TOKENS_DROPPED');
    return null;
  }
  if (digits) leniencies.add('R_TOKENS_COERCED');
  return figure;
}

function textsOf(list: unknown, dropped: string, leniencies: Set<string>): readonly string[] {
  const entries: readonly unknown[] = Array.isArray(list) ? list : [undefined];
  const texts = entries.filter(isText);
  if (texts.length < entries.length) leniencies.add(dropped);
  return texts;
}

function artifactsOf(artifacts: unknown, leniencies: Set<string>): Members | null {
  if (!isObject(artifacts)) {
    leniencies.add('R_ARTIFACTS_DROPPED');
    return null;
  }
  const copy: Record<string, unknown> = { ...artifacts };
  if (!isAbsent(copy.pr) && !isText(copy.pr)) {
    leniencies.add('R_ARTIFACTS_DROPPED');
    copy.pr = null;
  }
  if (!isAbsent(copy.files_changed))
    copy.files_changed = textsOf(copy.files_changed, 'R_ARTIFACTS_DROPPED', leniencies);
  return copy;
}

/** Required members that the model left out: the placeholder, and the code that reports it. */
const PLACEHOLDERS: ReadonlyMap<string, { readonly report: string; readonly members: Members }> = new Map([
  ['E_BLOCKED_REASON', { report: 'R_REASON_MISSING', members: { blocked_reason: '(no reason given)' } }],
  [
    'E_PARTIAL_NEXT_STEPS',
    { report: 'R_STEPS_MISSING', members: { next_steps: ['(worker did not say what remains)'] } },
  ],
  ['E_ERROR_SUMMARY', { report: 'R_SUMMARY_MISSING', members: { error_summary: '(no summary given)' } }],
]);

const DECISIVE: ReadonlySet<string> = new Set(['', 'type', 'protocol_version', 'task_id', 'status']);

/** Decodes; removes invalid members, fills in missing ones, and decodes again. */
function validated(message: Record<string, unknown>, leniencies: Set<string>): Reported | undefined {
  // Two rounds are enough: one removes invalid members, one fills in those that are missing then.
  for (let round = 0; ; round++) {
    const decoded = decodeValue(message);
    if (decoded.valid) return decoded.message.type === 'TASK_RESULT' ? decoded.message : undefined;
    if (round === 2 || !amended(message, decoded.errors, leniencies)) return undefined;
  }
}

function amended(message: Record<string, unknown>, errors: readonly Finding[], leniencies: Set<string>): boolean {
  const missing = errors.filter(({ code }) => PLACEHOLDERS.has(code));
  for (const { path } of errors.filter(({ code }) => !PLACEHOLDERS.has(code))) {
    const member = path.split('/')[1] ?? '';
    if (DECISIVE.has(member)) return false;
    leniencies.add(DROPPED.get(member) ?? 'R_MEMBER_DROPPED');
    delete message[member];
  }
  for (const { code } of missing) {
    const placeholder = PLACEHOLDERS.get(code);
    if (placeholder === undefined) continue;
    leniencies.add(placeholder.report);
    Object.assign(message, placeholder.members);
  }
  return true;
}

const DROPPED: ReadonlyMap<string, string> = new Map([
  ['next_steps', 'R_STEPS_DROPPED'],
  ['blocked_reason', 'R_REASON_DROPPED'],
  ['artifacts', 'R_ARTIFACTS_DROPPED'],
  ['tokens_spent', 'R_TOKENS_DROPPED'],
]);
