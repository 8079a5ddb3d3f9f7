/**
 * The members of a node and the values they may have. Checked before their meaning is read.
 *
 * Unknown members pass, as everywhere on the wire.
 */
import { parseTimestamp, TIMESTAMP_FORM } from '../../../base/timestamp.ts';
import { valueKind } from '../../../base/value-kind.ts';
import { isObject } from '../../../wire/json.ts';
import { strayMembers } from './called-nodes.ts';
import { isMemoryOperation, MEMORY_OPERATIONS, NODE_KINDS, type NodeKind } from './kinds.ts';
import { quoted } from './problems.ts';

/** Returns `expected …` for a value that does not fit; undefined: it fits. */
type Rule = (value: unknown) => string | undefined;

const when =
  (fits: (value: unknown) => boolean, expected: string): Rule =>
  (value) =>
    fits(value) ? undefined : expected;

const text = when((value) => typeof value === 'string', 'a text');
const flag = when((value) => typeof value === 'boolean', 'true or false');
const object = when(isObject, 'an object');
const positive = when((value) => Number.isSafeInteger(value) && (value as number) > 0, 'a whole number above 0');
const count = when((value) => Number.isSafeInteger(value) && (value as number) >= 0, 'a whole number from 0');
const numberFrom = (least: number, most = Number.POSITIVE_INFINITY) =>
  when(
    (value) => typeof value === 'number' && value >= least && value <= most,
    most === Number.POSITIVE_INFINITY ? `a number from ${least}` : `a number from ${least} to ${most}`,
  );
const texts = when(
  (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  'a list of texts',
);
const instant = when(
  (value) => typeof value === 'string' && parseTimestamp(value) !== undefined,
  `a time of ${TIMESTAMP_FORM}`,
);
const textOrJmespath = when((value) => typeof value === 'string' || isObject(value), 'a text or {"jmespath": …}');

const nodeRules: Readonly<Record<string, Rule>> = {
  name: text,
  input: object,
  input_map: object,
  condition: text,
  true_node: text,
  false_node: text,
  items_path: textOrJmespath,
  map_node: text,
  next_node: text,
  on_error: text,
  after: texts,
  parallel: positive,
  timeout_ms: positive,
  retry: object,
  compensate: text,
  idempotent: flag,
  output_schema: object,
  reduce: object,
  wait: object,
  description: text,
};

const retryRules: Readonly<Record<string, Rule>> = {
  max_attempts: positive,
  delay_ms: count,
  factor: numberFrom(1),
  max_delay_ms: count,
  jitter: numberFrom(0, 1),
  codes: texts,
};

const waitRules: Readonly<Record<string, Rule>> = { ms: count, until: instant, approval: text, event: text };

/** Principals that a wait node may name. */
const MAX_BY = 100;

/** Members that a kind requires. */
const needed: Partial<Readonly<Record<NodeKind, readonly string[]>>> = {
  tool: ['name'],
  skill: ['name'],
  mcp: ['name'],
  memory: ['name'],
  map: ['map_node'],
  reduce: ['reduce'],
  wait: ['wait'],
};

/** A problem of a member. */
export interface MemberProblem {
  readonly field: string;
  readonly message: string;
}

/** Longest id of a node, in characters. */
const MAX_ID = 128;

/** Returns the problem of an id; undefined: it has none. */
export function idProblem(id: unknown): string | undefined {
  if (typeof id !== 'string' || id === '') return `expected a text, got ${id === '' ? 'an empty one' : valueKind(id)}`;
  if (id.length > MAX_ID) return `expected at most ${MAX_ID} characters, got ${id.length}`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they would reach terminals and logs.
  if (/[\u0000-\u001f\u007f]/.test(id)) return 'expected no control characters';
  return id === '__proto__' ? 'expected another name than __proto__' : undefined;
}

/** Returns the problems of the members of a node, except its id. @param isStarted a run has begun with it */
export function memberProblems(node: Readonly<Record<string, unknown>>, isStarted = false): readonly MemberProblem[] {
  const problems = [...misfits(node, nodeRules, '')];
  const { kind } = node;
  if (!NODE_KINDS.includes(kind as NodeKind)) {
    problems.unshift({ field: 'kind', message: `expected one of ${NODE_KINDS.join(', ')}, got ${valueKind(kind)}` });
    return problems;
  }
  for (const field of needed[kind as NodeKind] ?? []) {
    const value = node[field];
    if (value === undefined || value === null || value === '')
      problems.push({ field, message: `a ${kind} node needs ${field}` });
  }
  if (kind === 'memory' && typeof node.name === 'string' && node.name !== '' && !isMemoryOperation(node.name)) {
    const message = `expected one of ${MEMORY_OPERATIONS.join(', ')}, got ${quoted(node.name)}`;
    problems.push({ field: 'name', message });
  }
  if (!isStarted)
    problems.push(...strayMembers(node).filter(({ field }) => !problems.some((problem) => problem.field === field)));
  if (isObject(node.retry)) problems.push(...misfits(node.retry, retryRules, 'retry.'));
  if (kind === 'wait' && isObject(node.wait)) problems.push(...waitProblems(node.wait));
  if (kind === 'reduce' && isObject(node.reduce) && typeof node.reduce.jmespath !== 'string') {
    problems.push({ field: 'reduce', message: 'expected {"jmespath": "…"}' });
  }
  return problems;
}

function* misfits(
  value: Readonly<Record<string, unknown>>,
  rules: Readonly<Record<string, Rule>>,
  prefix: string,
): Generator<MemberProblem> {
  for (const [name, rule] of Object.entries(rules)) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined;
    // Null stands for an absent member, as it does in the SDK.
    const expected = member === undefined || member === null ? undefined : rule(member);
    if (expected !== undefined)
      yield { field: `${prefix}${name}`, message: `expected ${expected}, got ${valueKind(member)}` };
  }
}

function waitProblems(wait: Readonly<Record<string, unknown>>): MemberProblem[] {
  const problems = [...misfits(wait, waitRules, 'wait.')];
  const given = Object.keys(waitRules).filter((name) => wait[name] !== undefined && wait[name] !== null);
  if (given.length !== 1)
    problems.push({ field: 'wait', message: `expected one of ${Object.keys(waitRules).join(', ')}` });
  const { by } = wait;
  if (by === undefined || by === null) return problems;
  const isNames = Array.isArray(by) && by.every((name) => typeof name === 'string' && name !== '');
  if (!isNames || by.length === 0 || by.length > MAX_BY) {
    problems.push({ field: 'wait.by', message: `expected 1 to ${MAX_BY} names of principals, got ${valueKind(by)}` });
  } else if (!given.includes('approval')) {
    problems.push({ field: 'wait.by', message: 'expected it beside approval: it says who may answer' });
  }
  return problems;
}
