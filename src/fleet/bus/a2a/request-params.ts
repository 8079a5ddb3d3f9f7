/**
 * Checks the parameters of an A2A request before the SDK reads them: the SDK turns a number, a list or an object into a text,
 * and would search for a task named "[object Object]" or run one with the brief "7".
 *
 * Also bounds lists and metadata: the SDK converts and stores each of their values several times, and loads each referenced task
 * within one turn of the event loop. The values of data parts it leaves as they are.
 *
 * Follows the JSON form of A2A's messages: null is absent, an integer may be a decimal text, and an enumeration may be a
 * number. Unknown members are ignored.
 * @see docs/a2a.md#agent
 */
import { parseTimestamp, TIMESTAMP_FORM } from '../../../base/timestamp.ts';
import { hasMoreValues } from '../../../wire/depth.ts';
import { isObject } from '../../../wire/json.ts';
import type { Members } from '../../../wire/strict-json.ts';
import { isId } from '../../messages/names.ts';

type Kind = 'string' | 'integer' | 'boolean' | 'object' | 'list' | 'word' | 'time';
type Shape = Readonly<Record<string, Kind>>;

const IS: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  integer: (value) =>
    Number.isInteger(value) || (typeof value === 'string' && value !== '' && Number.isInteger(Number(value))),
  boolean: (value) => typeof value === 'boolean',
  object: isObject,
  list: Array.isArray,
  word: (value) => typeof value === 'string' || Number.isInteger(value),
  time: (value) => typeof value === 'string' && (value === '' || parseTimestamp(value) !== undefined),
};

const EXPECTED: Readonly<Record<Kind, string>> = {
  string: 'a string',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  list: 'a list',
  word: 'the name of a value',
  time: `a time of ${TIMESTAMP_FORM}`,
};

const SEND: Shape = { tenant: 'string', message: 'object', configuration: 'object', metadata: 'object' };
const TASK: Shape = { tenant: 'string', id: 'string' };
const PUSH: Shape = { tenant: 'string', taskId: 'string', id: 'string' };

/** Items of a list at most. */
const MAX_ITEMS = 1_024;
/** Tasks that a message may refer to. */
const MAX_REFERENCES = 32;
/** Values of the metadata of a request, of its message, and of all parts together, as `wire/depth.ts` counts them. */
const MAX_METADATA = 4_096;

/** Members of the parameters of each method of A2A 1.0. */
const METHODS: ReadonlyMap<unknown, Shape> = new Map([
  ['SendMessage', SEND],
  ['SendStreamingMessage', SEND],
  ['GetTask', { ...TASK, historyLength: 'integer' }],
  [
    'ListTasks',
    {
      tenant: 'string',
      contextId: 'string',
      status: 'word',
      pageSize: 'integer',
      pageToken: 'string',
      historyLength: 'integer',
      includeArtifacts: 'boolean',
      statusTimestampAfter: 'time',
    },
  ],
  ['CancelTask', { ...TASK, metadata: 'object' }],
  ['SubscribeToTask', TASK],
  ['CreateTaskPushNotificationConfig', PUSH],
  ['GetTaskPushNotificationConfig', PUSH],
  ['ListTaskPushNotificationConfigs', PUSH],
  ['DeleteTaskPushNotificationConfig', PUSH],
  ['GetExtendedAgentCard', {}],
]);

const MESSAGE: Shape = {
  messageId: 'string',
  contextId: 'string',
  taskId: 'string',
  role: 'word',
  parts: 'list',
  metadata: 'object',
  extensions: 'list',
  referenceTaskIds: 'list',
};
const CONFIGURATION: Shape = { historyLength: 'integer', returnImmediately: 'boolean', acceptedOutputModes: 'list' };
const PART: Shape = {
  text: 'string',
  raw: 'string',
  url: 'string',
  filename: 'string',
  mediaType: 'string',
  metadata: 'object',
};

export const isA2aMethod = (method: unknown): boolean => METHODS.has(method);

/** Returns the fault in the parameters of a known method; undefined: none that the SDK would not find itself. */
export function invalidParams(method: unknown, params: unknown): string | undefined {
  const shape = METHODS.get(method);
  if (shape === undefined || !isObject(params)) return undefined;
  const { message, configuration } = params;
  const wrong = wrongIn(params, shape, 'params');
  if (wrong !== undefined || shape !== SEND) return wrong;
  return (
    wrongIn(configuration, CONFIGURATION, 'params.configuration') ??
    wrongIn(message, MESSAGE, 'params.message') ??
    wrongParts(isObject(message) ? message.parts : undefined)
  );
}

function wrongParts(parts: unknown): string | undefined {
  const metadata: unknown[] = [];
  for (const [index, part] of (Array.isArray(parts) ? parts : []).entries()) {
    const at = `params.message.parts[${index}]`;
    const wrong = isObject(part) ? wrongIn(part, PART, at) : `${at} must be an object`;
    if (wrong !== undefined) return wrong;
    if (isObject(part) && isObject(part.metadata)) metadata.push(part.metadata);
  }
  return hasMoreValues(metadata, MAX_METADATA + metadata.length)
    ? tooMuch('params.message.parts.metadata', MAX_METADATA)
    : undefined;
}

const tooMuch = (at: string, most: number, what = 'values'): string => `${at} has more than ${most} ${what}`;

function wrongIn(value: unknown, shape: Shape, at: string): string | undefined {
  if (!isObject(value)) return undefined;
  const members: Members = value;
  for (const [name, kind] of Object.entries(shape)) {
    const member = members[name] ?? members[snake(name)];
    if (member === undefined || member === null) continue;
    if (!IS[kind](member)) return `${at}.${name} must be ${EXPECTED[kind]}`;
    const most = name === 'referenceTaskIds' ? MAX_REFERENCES : MAX_ITEMS;
    if (Array.isArray(member) && member.length > most) return tooMuch(`${at}.${name}`, most, 'items');
    // The SDK writes those that it does not find to the output of this process.
    if (
      name === 'referenceTaskIds' &&
      !(member as readonly unknown[]).every((id) => typeof id === 'string' && isId(id))
    )
      return `${at}.${name} must be a list of ids`;
    if (name === 'metadata' && hasMoreValues(member, MAX_METADATA)) return tooMuch(`${at}.${name}`, MAX_METADATA);
  }
  return undefined;
}

/** Returns the other spelling of a member that readers of this JSON form accept. */
const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
