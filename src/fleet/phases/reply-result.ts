/**
 * From a JSON object in a reply to a TASK_RESULT, or to the reason why it is none. A language model wrote it: what it
 * plainly meant is taken, and every leniency is reported. What decides about the work (status, task) is never guessed.
 *
 * Called by `reply.ts` for each candidate.
 * @see docs/fleet-phases.md#result-in-the-reply
 */
import { FLEET_VERSION, STATUSES } from '../../protocol/fleet.ts';
import { isObject } from '../../wire/json.ts';
import type { Members } from '../../wire/strict-json.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Finding, Reported } from '../messages/decoded.ts';
import { canonicalName } from '../messages/names.ts';

/** What came of one object: taken with leniencies; refused with a reason; `null`: it is about something else. */
export type Acceptance =
  | { readonly result: Reported; readonly leniencies: readonly string[] }
  | { readonly result?: undefined; readonly refusal: 'R_TASK_ID_MISMATCH' | 'R_INVALID' }
  | null;

/** Words for a status that are as clear as the status itself. */
const STATUS_WORDS: ReadonlyMap<string, string> = new Map([
  ...STATUSES.map((status) => [status, status] as const),
  ...['completed', 'complete', 'success', 'succeeded', 'ok'].map((word) => [word, 'done'] as const),
  ...['failed', 'failure', 'fail'].map((word) => [word, 'error'] as const),
  ...['incomplete', 'partially_done', 'partially_completed'].map((word) => [word, 'partial'] as const),
]);

const WRAPPERS = ['task_result', 'TASK_RESULT', 'result'] as const;

/** What the worker itself says of a task; a model's words for it count for nothing. */
const NOT_A_MODELS = ['envelope', 'usage', 'prose', 'conformance'] as const;

/** Reads an object as the result of this task. */
export function acceptResult(object: Members, taskId: string): Acceptance {
  const leniencies = new Set<string>();
  const found = recognised(object, taskId, leniencies) ?? unwrapped(object, taskId, leniencies);
  if (found === undefined) return null;
  const message: Record<string, unknown> = { ...found, type: 'TASK_RESULT' };
  for (const member of NOT_A_MODELS) delete message[member];

  if (isAbsent(message.task_id)) {
    leniencies.add('R_TASK_ID_FILLED');
    message.task_id = taskId;
  } else if (message.task_id !== taskId) return { refusal: 'R_TASK_ID_MISMATCH' };
  coerce(message, leniencies);
  const result = validated(message, leniencies);
  return result === undefined ? { refusal: 'R_INVALID' } : { result, leniencies: [...leniencies] };
}

/** It says it is a TASK_RESULT, or says nothing and is about this task. */
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

/** Puts right what has one meaning only. */
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

/** A missing version is ours; a number, or a text of another shape, is read as far as it goes. Another major is refused. */
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
  const kept: Record<string, unknown> = { ...artifacts };
  if (!isAbsent(kept.pr) && !isText(kept.pr)) {
    leniencies.add('R_ARTIFACTS_DROPPED');
    kept.pr = null;
  }
  if (!isAbsent(kept.files_changed))
    kept.files_changed = textsOf(kept.files_changed, 'R_ARTIFACTS_DROPPED', leniencies);
  return kept;
}

/** Members the model may have left out where the protocol wants them: what is said instead, and how that is reported. */
const PLACEHOLDERS: ReadonlyMap<string, { readonly report: string; readonly members: Members }> = new Map([
  ['E_BLOCKED_REASON', { report: 'R_REASON_MISSING', members: { blocked_reason: '(no reason given)' } }],
  [
    'E_PARTIAL_NEXT_STEPS',
    { report: 'R_STEPS_MISSING', members: { next_steps: ['(worker did not say what remains)'] } },
  ],
  ['E_ERROR_SUMMARY', { report: 'R_SUMMARY_MISSING', members: { error_summary: '(no summary given)' } }],
]);

const DECISIVE: ReadonlySet<string> = new Set(['', 'type', 'protocol_version', 'task_id', 'status']);

/** Decodes; drops members that are not what they should be, says what is missing, and decodes again. */
function validated(message: Record<string, unknown>, leniencies: Set<string>): Reported | undefined {
  // Two rounds are enough: one for members that go, one for what is missing once they are gone.
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
