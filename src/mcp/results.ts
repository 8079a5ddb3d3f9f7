/**
 * Reads the result of each method by the rules of `lenient.ts`: the official client refuses a whole list for one odd
 * member of one tool. Pure.
 */
import { plainBase64 } from '../base/base64.ts';
import { isObject, type JsonObject, withoutNulls } from '../wire/json.ts';
import {
  capability,
  chained,
  flag,
  listOf,
  number,
  object,
  objectOf,
  oneOf,
  otherwise,
  type Reader,
  text,
} from './lenient.ts';

const annotations = objectOf({
  audience: listOf(oneOf('user', 'assistant')),
  priority: (value) => (typeof value === 'number' && value >= 0 && value <= 1 ? value : undefined),
  lastModified: (value) =>
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/.test(value)
      ? value
      : undefined,
});
const icons = listOf(objectOf({ mimeType: text, sizes: listOf(text), theme: oneOf('light', 'dark') }, { src: text }));
const described = { title: text, description: text, icons, _meta: object };

// Tools.

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
/** Some servers write the type alone in place of a schema. */
const property: Reader = (value) => {
  if (typeof value === 'string') return TYPES.includes(value) ? { type: value } : {};
  return isObject(value) || typeof value === 'boolean' ? value : {};
};
const properties: Reader = (value) => {
  if (!isObject(value)) return undefined;
  const entries = Object.entries(value);
  if (entries.every(([, each]) => property(each) === each)) return value;
  return Object.fromEntries(entries.map(([name, each]) => [name, property(each)]));
};
const objectSchema = objectOf({ properties, required: listOf(text) });

/** Reads arguments as an object, for any form of a server's schema. */
const inputSchema: Reader = (value) => {
  const schema = objectSchema(value) ?? {};
  return (schema as JsonObject).type === 'object' ? schema : { ...schema, type: 'object' };
};

/** The schema of an object: in the generation with sessions a result is an object. */
const outputSchema: Reader = (value) => {
  const schema = objectSchema(value) as JsonObject | undefined;
  if (schema === undefined || schema.type === 'object') return schema;
  const isOfObject = Array.isArray(schema.type) ? schema.type.includes('object') : schema.type === undefined;
  if (isOfObject) return { ...schema, type: 'object' };
  // References would lead elsewhere.
  if (JSON.stringify(schema).includes('"$ref"')) return undefined;
  return { type: 'object', properties: { [WRAPPED]: schema }, required: [WRAPPED] };
};
/** The member that holds a result of another type. */
const WRAPPED = 'result';

const toolMembers = {
  ...described,
  annotations: objectOf({
    title: text,
    readOnlyHint: flag,
    destructiveHint: flag,
    idempotentHint: flag,
    openWorldHint: flag,
  }),
  execution: objectOf({ taskSupport: oneOf('required', 'optional', 'forbidden') }),
};
const named: Reader = (value) => (value === '' ? undefined : text(value));
const tool = objectOf({ ...toolMembers, outputSchema }, { name: named, inputSchema });
const statelessTool = objectOf({ ...toolMembers, outputSchema: objectSchema }, { name: named, inputSchema });

// Contents.

/** Reads base64 of either alphabet, also broken into lines, and as a `data:` address. */
const base64: Reader = (value) => (typeof value === 'string' ? plainBase64(value) : undefined);
const blobContents = objectOf({ mimeType: text, _meta: object }, { uri: otherwise(text, ''), blob: base64 });
const textContents = objectOf({ mimeType: text, _meta: object }, { uri: otherwise(text, ''), text });
const contents: Reader = (value) => {
  if (!isObject(value)) return undefined;
  const { text: own, blob, ...rest } = value;
  if (typeof own === 'string') return textContents(blob === null ? { ...rest, text: own } : value);
  if (own === null && typeof blob !== 'string') return textContents({ ...rest, text: '' });
  return blobContents(own === undefined ? value : { ...rest, blob });
};

const partMembers = { annotations, _meta: object };
const bytes = (fallback: string) => objectOf(partMembers, { data: base64, mimeType: otherwise(text, fallback) });
const PARTS: Readonly<Record<string, Reader>> = {
  text: objectOf(partMembers, { text: otherwise(text, '') }),
  image: bytes('image/png'),
  audio: bytes('audio/wav'),
  resource: objectOf(partMembers, { resource: contents }),
  resource_link: objectOf(
    { ...partMembers, title: text, description: text, mimeType: text, size: number, icons },
    { uri: text, name: otherwise(text, '') },
  ),
};
/** A content block; a block that the protocol does not know becomes a text with its JSON. */
const part: Reader = (value) => {
  if (value === null || value === undefined) return undefined;
  if (typeof value === 'string') return { type: 'text', text: value };
  const type = isObject(value) && typeof value.type === 'string' ? value.type : '';
  const reader = Object.hasOwn(PARTS, type) ? PARTS[type] : undefined;
  return reader?.(value) ?? { type: 'text', text: JSON.stringify(value) };
};
const parts: Reader = (value) => {
  if (value === undefined || value === null) return [];
  return listOf(part)(Array.isArray(value) ? value : [value]);
};

// Results.

const meta = { _meta: object };
/** An empty cursor names no page. */
const page = { ...meta, nextCursor: named };
const entries = (entry: Reader): Reader => otherwise(listOf(entry), []);
const resourceMembers = { ...described, mimeType: text, size: number, annotations };
/** Puts the address in place of a missing name. */
const nameFrom =
  (member: string): Reader =>
  (value) =>
    isObject(value) && typeof value.name !== 'string' ? { ...value, name: value[member] } : value;

const structured: Reader = (value) => {
  if (value === null) return undefined;
  return isObject(value) ? value : { [WRAPPED]: value };
};
const callMembers = { ...meta, isError: flag };
const wholeCall: Reader = (value) => (isObject(value) ? value : { content: value });
/** Members that only results of another family have: a task, or a question. */
const FAMILIES = ['task', 'inputRequests', 'requestState'];
const isOfFamily = (result: JsonObject): boolean =>
  FAMILIES.some((key) => result[key] !== undefined && result[key] !== null) ||
  (typeof result.resultType === 'string' && result.resultType !== 'complete');

const role = oneOf('user', 'assistant');
/** Reads a list of messages, and splits a message whose content is a list into messages of one block. */
const messages: Reader = (value) => {
  if (!Array.isArray(value)) return undefined;
  return value.flatMap((message: unknown) => {
    const given = isObject(message) ? message.content : message;
    const author = (isObject(message) && role(message.role)) || 'user';
    return (parts(given) as unknown[]).map((content) => ({ role: author, content }));
  });
};
const argument = objectOf({ description: text, required: flag }, { name: named });

const called = chained(wholeCall, objectOf({ ...callMembers, structuredContent: structured }, { content: parts }));

/** The revision of a server that names none; the protocol has this default for requests. */
const OLDEST_WITH_HTTP = '2025-03-26';

const RESULTS: Readonly<Record<string, Reader>> = {
  initialize: objectOf(
    { ...meta, instructions: text },
    {
      protocolVersion: otherwise(text, OLDEST_WITH_HTTP),
      capabilities: (value) =>
        objectOf({
          experimental: object,
          extensions: object,
          logging: capability,
          completions: capability,
          prompts: chained(capability, objectOf({ listChanged: flag })),
          resources: chained(capability, objectOf({ listChanged: flag, subscribe: flag })),
          tools: chained(capability, objectOf({ listChanged: flag })),
          tasks: object,
        })(value ?? {}),
      serverInfo: (value) =>
        objectOf(
          { title: text, description: text, websiteUrl: text, icons },
          { name: otherwise(text, ''), version: otherwise(text, '') },
        )(value ?? {}),
    },
  ),
  'tools/list': objectOf(page, { tools: entries(tool) }),
  'resources/list': objectOf(page, {
    resources: entries(chained(nameFrom('uri'), objectOf(resourceMembers, { uri: named, name: text }))),
  }),
  'resources/templates/list': objectOf(page, {
    resourceTemplates: entries(
      chained(nameFrom('uriTemplate'), objectOf(resourceMembers, { uriTemplate: named, name: text })),
    ),
  }),
  'prompts/list': objectOf(page, {
    prompts: entries(objectOf({ ...described, arguments: listOf(argument) }, { name: named })),
  }),
  'prompts/get': objectOf({ ...meta, description: text }, { messages }),
  'resources/read': objectOf(meta, {
    contents: (value) => listOf(contents)(Array.isArray(value) ? value : isObject(value) ? [value] : []),
  }),
  'completion/complete': objectOf(meta, {
    completion: objectOf(
      { total: number, hasMore: flag },
      { values: (value) => (listOf(text)(value ?? []) as unknown[] | undefined)?.slice(0, MAX_COMPLETIONS) },
    ),
  }),
  'tools/call': called,
  'tasks/result': called,
};

const MAX_COMPLETIONS = 100;

/** Of the generation without sessions. */
const STATELESS: Readonly<Record<string, Reader>> = {
  'tools/list': objectOf(page, { tools: entries(statelessTool) }),
  'tools/call': chained(wholeCall, objectOf(callMembers, { content: parts })),
};
const CACHED = /^(?:(?:tools|prompts|resources|resources\/templates)\/list|resources\/read)$/;
const cached = objectOf(
  {},
  {
    ttlMs: otherwise((value) => (Number.isSafeInteger(value) && (value as number) >= 0 ? value : undefined), 0),
    cacheScope: otherwise(oneOf('public', 'private'), 'private'),
  },
);

/** Returns the result to use; undefined for a value that is not a result of the method. */
export function readResult(method: string, result: unknown, isStateless: boolean): unknown {
  // The code that follows tasks, and the official client, read these.
  if (isObject(result) && isOfFamily(result)) return result;
  const table = isStateless && Object.hasOwn(STATELESS, method) ? STATELESS : RESULTS;
  const reader = Object.hasOwn(table, method) ? table[method] : undefined;
  // Methods without a result, which some servers write as null.
  if (reader === undefined) return isObject(result) ? objectOf(meta)(result) : {};
  const read = reader(isObject(result) && method !== 'tools/call' ? withoutNulls(result) : result);
  return isStateless && CACHED.test(method) ? cached(read) : read;
}
