/**
 * Phase 3: extracts the TASK_RESULT from the reply of a language model. Such replies come from the executor of a worker, and
 * from peers without the protocol.
 *
 * Always returns an outcome: the result in the reply, or one derived from a reply without a result. A claim of success without
 * a result counts as `partial`. The task is never run again, because that could do the work twice.
 * @see docs/fleet-phases.md#result-in-the-reply
 */
import { FLEET_VERSION, type ReplySchema, type Status } from '../../protocol/fleet.ts';
import { readStrictJson, type StrictJson } from '../../wire/strict-json.ts';
import type { Announced, Reported } from '../messages/decoded.ts';
import { announceInReply } from './announce-reply.ts';
import { type Candidate, candidates } from './candidates.ts';
import { repairJson } from './json-repair.ts';
import { acceptResult } from './reply-result.ts';

/** Place of the result. */
export type ReplySource = 'whole' | 'fence' | 'embedded' | 'bare' | 'sentinel' | 'fallback';

/** `strict` as asked · `degraded` with leniencies · `unstructured` no block · `pending`, `busy` no result yet. */
export type Conformance = 'strict' | 'degraded' | 'unstructured' | 'pending' | 'busy';

export interface ReplyInput {
  readonly text: string;
  readonly taskId: string;
  /** The requested form. */
  readonly replySchema: ReplySchema;
  /** Exit code of the executor's program; null without a program. */
  readonly exitCode: number | null;
}

/** The outcome of an extraction. */
export interface Extracted {
  readonly source: ReplySource;
  readonly conformance: Conformance;
  /** null while `pending` or `busy`. */
  readonly result: Reported | null;
  /** `R_…`, each once, in the order they were found. */
  readonly diagnostics: readonly string[];
  /** The announce in the reply, if any. */
  readonly announce: Announced | null;
  /** The rest of the reply, without result and announce, trimmed. */
  readonly prose: string;
}

/** Characters at the end of a longer reply that are read, because the result is at the end. */
const MAX_REPLY_CHARS = 1_048_576;

/** Reads a reply. Never throws; linear in the text. */
export function extractReply({ text, taskId, replySchema, exitCode }: ReplyInput): Extracted {
  const { profile, prose: body } = announceInReply(lastOf(text));
  const found = new Set<string>(profile === undefined ? [] : ['R_ANNOUNCE']);
  const extracted = (
    source: ReplySource,
    conformance: Conformance,
    result: Reported | null,
    prose: string,
    ...codes: readonly string[]
  ): Extracted => {
    for (const code of codes) found.add(code);
    return { source, conformance, result, diagnostics: [...found], announce: profile ?? null, prose };
  };
  const failed = (summary: string): Reported => reported(taskId, 'error', [], summary);

  if (body === '' && profile !== undefined) return extracted('fallback', 'pending', null, '');
  const exited = exitCode === null || exitCode === 0 ? [] : ['R_EXIT_NONZERO'];
  if (body === '') return extracted('fallback', 'unstructured', failed('empty output'), '', 'R_EMPTY', ...exited);

  const block = resultIn(body, taskId, found);
  if (block !== undefined) {
    const { source, result, leniencies, start, end } = block;
    const prose = (body.slice(0, start) + body.slice(end)).trim();
    const extra = replySchema === 'json' && prose !== '' ? ['R_EXTRA_TEXT'] : [];
    const conformance = leniencies.some(isDegrading) ? 'degraded' : 'strict';
    return extracted(source, conformance, result, prose, ...leniencies, ...extra, ...exited);
  }
  if (body.endsWith('[queued]')) return extracted('sentinel', 'pending', null, body, 'R_QUEUED', ...exited);
  if (body.startsWith('[busy]')) return extracted('sentinel', 'busy', null, body, 'R_BUSY', ...exited);
  if (FAILURE_MARK.test(body)) {
    const summary = firstOf(body, MAX_MARK_CHARS);
    return extracted('sentinel', 'unstructured', failed(summary), body, 'R_SENTINEL', ...exited);
  }
  if (exited.length > 0) {
    const summary = `exit code ${exitCode}: ${firstOf(body, MAX_EXIT_CHARS)}`;
    return extracted('fallback', 'unstructured', failed(summary), body, ...exited);
  }
  const result = replySchema === 'prose' ? reported(taskId, 'done', []) : reported(taskId, 'partial', [CONFIRM]);
  return extracted('fallback', 'unstructured', result, body, 'R_NO_BLOCK');
}

/** Markers that receivers send instead of a reply. */
const FAILURE_MARK = /^(?:\[error\]|\[drift detected|\[no reply produced by [^\]\n]*\]$)/;
const MAX_MARK_CHARS = 2000;
const MAX_EXIT_CHARS = 280;

const CONFIRM = 'Worker replied without a usable TASK_RESULT; read the attached reply and confirm the outcome.';

/** True for leniencies that leave the meaning in doubt. */
const isDegrading = (code: string): boolean => /^R_(?:UNTYPED|REPAIRED|STATUS_ALIAS)$|_DROPPED$|_MISSING$/.test(code);

/** Returns a result for a reply without a block, in the form of the protocol. */
function reported(task_id: string, status: Status, next_steps: readonly string[], error_summary?: string): Reported {
  return {
    type: 'TASK_RESULT',
    protocol_version: FLEET_VERSION,
    task_id,
    status,
    tokens_spent: null,
    next_steps,
    blocked_reason: null,
    artifacts: { pr: null, files_changed: [] },
    ...(error_summary !== undefined && { error_summary }),
    more_artifacts: new Map(),
    summary: null,
    blocked: null,
    usage: null,
    answer: undefined,
    prose: null,
    conformance: null,
    envelope: {},
  };
}

interface Block {
  readonly source: ReplySource;
  readonly result: Reported;
  readonly leniencies: readonly string[];
  /** Its range in the text. */
  readonly start: number;
  readonly end: number;
}

/** Returns the last usable result: agents restate templates and interim results first. Refusals of others go into `found`. */
function resultIn(text: string, taskId: string, found: Set<string>): Block | undefined {
  const whole = MAY_BE_OBJECT.test(text) ? read(text) : undefined;
  if (whole?.json.ok) return blockOf({ place: 'whole', start: 0, end: text.length }, whole, taskId, found);
  let last: Block | undefined;
  let accepted = 0;
  for (const candidate of candidates(text, true)) {
    if (isTooShort(candidate.text)) continue;
    const block = blockOf(candidate, read(candidate.text), taskId, found);
    if (block === undefined) continue;
    accepted++;
    last = block;
  }
  if (accepted > 1) found.add('R_MULTIPLE');
  return last;
}

/** True for a text that is too short for a result; the shortest is `{"task_id":"…","status":"ok"}`. */
const isTooShort = (text: string): boolean => text.length < 29 && !text.includes('TASK_RESULT');

/** An object, perhaps after a comment or zero-width characters. Avoids parsing all prose as JSON. */
const MAY_BE_OBJECT = /^[\u200b-\u200d\u2060\ufeff\s]*[{/]/;

interface ReadJson {
  readonly json: StrictJson;
  readonly repaired: boolean;
  /** True when it contains the word TASK_RESULT, so the writer meant one. */
  readonly mentions: boolean;
}

/** Reads a candidate strictly, and once more after repairs if it is not JSON. Truncated text is not completed. */
function read(text: string): ReadJson {
  const mentions = text.includes('TASK_RESULT');
  const json: StrictJson = readStrictJson(text);
  if (json.ok || !json.errors.some(({ code }) => code === 'E_NOT_JSON')) return { json, repaired: false, mentions };
  const repaired = repairJson(text);
  if (repaired === text) return { json, repaired: false, mentions };
  return { json: readStrictJson(repaired), repaired: true, mentions };
}

const REFUSALS: ReadonlyMap<string, string> = new Map([
  ['E_DUP_KEY', 'R_DUP_KEY'],
  ['E_RESERVED_KEY', 'R_RESERVED_KEY'],
]);

function blockOf(
  { place, start, end }: Pick<Candidate, 'start' | 'end'> & { readonly place: Candidate['place'] | 'whole' },
  { json, repaired, mentions }: ReadJson,
  taskId: string,
  found: Set<string>,
): Block | undefined {
  if (!json.ok) {
    for (const { code } of json.errors) {
      const refusal = REFUSALS.get(code) ?? (mentions ? 'R_MALFORMED' : undefined);
      if (refusal !== undefined) found.add(refusal);
    }
    return undefined;
  }
  const accepted = acceptResult(json.value, taskId);
  if (accepted === null) return undefined;
  if (accepted.result === undefined) {
    found.add(accepted.refusal);
    return undefined;
  }
  return {
    source: place,
    result: accepted.result,
    leniencies: repaired ? ['R_REPAIRED', ...accepted.leniencies] : accepted.leniencies,
    start,
    end,
  };
}

/** Returns the end of a text, with LF line ends, never starting with half of a surrogate pair. */
function lastOf(text: string): string {
  const lines = text.replace(/\r\n?/g, '\n');
  return lines.length <= MAX_REPLY_CHARS ? lines : lines.slice(-MAX_REPLY_CHARS).replace(/^[\udc00-\udfff]/, '');
}

/** Returns the first characters of a text, whole ones. */
const firstOf = (text: string, most: number): string => [...text.slice(0, most * 2)].slice(0, most).join('');
