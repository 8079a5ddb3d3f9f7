/**
 * Readers that refuse a request as the providers do, written from their references and the messages of their refusals.
 * Each returns the reason, or undefined for an accepted request.
 */

import { JsonSchemas } from '../../src/base/json-schema.ts';
import { sniffedMedia } from '../../src/base/media-type.ts';

// biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs
type Body = any;

const schemas = new JsonSchemas(false);

/** Providers refuse a document with half of a surrogate pair before they read it. */
const textRefusal = (body: Body): string | undefined => {
  const walk = (value: unknown): boolean =>
    typeof value === 'string'
      ? value.isWellFormed()
      : typeof value !== 'object' ||
        value === null ||
        Object.entries(value).every(([name, member]) => name.isWellFormed() && walk(member));
  if (!walk(body)) return 'The request body is not valid JSON: no low surrogate in string';
  return undefined;
};

/** Returns the reason why an image is refused. */
function imageRefusal(
  mediaType: string,
  base64: string,
  most: number,
  sides = Number.POSITIVE_INFINITY,
): string | undefined {
  if (base64.length === 0 || base64.length % 4 !== 0) return 'image source data is not base64';
  const known = sniffedMedia(Buffer.from(base64, 'base64'));
  if (known === undefined) return 'Could not process image';
  if (known.type !== mediaType) return `the image was specified as ${mediaType} but appears to be ${known.type}`;
  if (base64.length > most) return `image exceeds the maximum: ${base64.length} bytes > ${most} bytes`;
  if (Math.max(known.width ?? 0, known.height ?? 0) > sides) return 'image dimensions exceed max allowed size';
  return undefined;
}

const ANTHROPIC_IMAGES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];

export function anthropicRefusal(body: Body): string | undefined {
  const bad =
    textRefusal(body) ??
    toolsRefusal(
      body.tools?.map((tool: Body) => [tool.name, tool.input_schema]),
      'anthropic',
    );
  if (bad !== undefined) return bad;
  if (body.messages[0]?.role !== 'user') return 'messages: first message must use the "user" role';
  const blocks: Body[] = body.messages.map((message: Body) =>
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content,
  );
  const nested = blocks
    .flat()
    .flatMap((block) => (block.type === 'tool_result' && Array.isArray(block.content) ? block.content : [block]));
  const images = nested.filter(({ type }) => type === 'image');
  if (images.length > 100) return 'too many images';
  for (const { source } of images) {
    if (!ANTHROPIC_IMAGES.includes(source.media_type)) return 'media_type: not taken';
    const refusal = imageRefusal(source.media_type, source.data, 5 * 1024 * 1024, images.length > 20 ? 2_000 : 8_000);
    if (refusal !== undefined) return refusal;
  }
  for (const { type, text } of nested) {
    if (type === 'text' && text === '') return 'messages: text content blocks must be non-empty';
    if (type === 'text' && text.trim() === '') return 'messages: text content blocks must contain non-whitespace text';
  }
  const mixed = thinkingRefusal(body, blocks) ?? cacheRefusal(body, blocks);
  if (mixed !== undefined) return mixed;
  if (body.messages.at(-1).role !== 'user') return 'This model does not support assistant message prefill.';
  if (body.thinking?.type === 'enabled' && body.thinking.budget_tokens >= body.max_tokens)
    return '`max_tokens` must be greater than `thinking.budget_tokens`';
  if (body.tools === undefined && nested.some(({ type }) => /^tool_/.test(type)))
    return 'Requests which include `tool_use` or `tool_result` blocks must define tools';
  const ids = new Set<string>();
  for (const [at, content] of blocks.entries()) {
    const { role } = body.messages[at];
    const isLast = at === blocks.length - 1;
    if (content.length === 0) return `messages.${at}: all messages must have non-empty content`;
    if (at > 0 && role === body.messages[at - 1].role) return 'messages: roles must alternate';
    if (isLast && role === 'assistant' && /\s$/.test(content.at(-1).text ?? '')) {
      return 'messages: final assistant content cannot end with trailing whitespace';
    }
    if (role === 'assistant' && /thinking/.test(content.at(-1).type)) {
      return `messages.${at}: The final block in an assistant message cannot be thinking`;
    }
    for (const block of content) {
      if (block.type === 'thinking' && !block.signature) return 'thinking.signature: Field required';
      if (block.type !== 'tool_use') continue;
      if (ids.has(block.id)) return 'tool_use ids must be unique';
      if (!/^[a-zA-Z0-9_-]+$/.test(block.id)) return 'tool_use.id: String should match pattern';
      if (!/^[a-zA-Z0-9_-]{1,128}$/.test(block.name)) return 'tool_use.name: String should match pattern';
      ids.add(block.id);
      const answered = (blocks[at + 1] ?? []).some(
        (each: Body) => each.type === 'tool_result' && each.tool_use_id === block.id,
      );
      if (!answered) return `tool_use ids were found without tool_result blocks immediately after: ${block.id}`;
    }
    const answers: Body[] = content.filter(({ type }: Body) => type === 'tool_result');
    if (answers.some((answer, number) => content[number] !== answer))
      return `messages.${at}: tool_result blocks must be at the beginning of the content`;
    if (new Set(answers.map(({ tool_use_id: id }) => id)).size < answers.length)
      return 'each tool_use must have a single result';
    for (const { type, tool_use_id: id } of content) {
      if (type !== 'tool_result') continue;
      const made = (blocks[at - 1] ?? []).some((each: Body) => each.type === 'tool_use' && each.id === id);
      if (!made) return `unexpected tool_use_id found in tool_result blocks: ${id}`;
    }
  }
  return undefined;
}

/** Returns the refusal of cache marks: at most four places are cached, none of which is an empty text or thinking. */
function cacheRefusal(body: Body, blocks: readonly Body[][]): string | undefined {
  const system: Body[] = Array.isArray(body.system) ? body.system : [{ type: 'text', text: body.system ?? 'x' }];
  if (system.some(({ text }) => text.trim() === '')) return 'system: text content blocks must be non-empty';
  const marked = [...system, ...blocks.flat(), ...(body.tools ?? [])].filter((block) => block.cache_control);
  if (marked.length > 4) return `A maximum of 4 blocks with cache_control may be provided. Found ${marked.length}.`;
  const wrong = marked.find(({ type, text }) => /thinking/.test(type ?? '') || (type === 'text' && text === ''));
  return wrong && `cache_control cannot be set for ${wrong.type} blocks`;
}

/** Returns the refusal of thinking: the work that a request continues has thinking in all of its parts, or in none. */
function thinkingRefusal(body: Body, blocks: readonly Body[][]): string | undefined {
  const isAnswer = (at: number): boolean => blocks[at]?.some(({ type }) => type === 'tool_result') ?? false;
  let first = blocks.length - 1;
  if (!isAnswer(first)) return undefined;
  while (isAnswer(first) || body.messages[first].role === 'assistant') first -= 1;
  const work = blocks.slice(first + 1).filter((_, at) => body.messages[first + 1 + at].role === 'assistant');
  const isThought = ({ type }: Body): boolean => /thinking/.test(type);
  const isOn = body.thinking !== undefined && body.thinking.type !== 'disabled';
  if (isOn && !isThought(work[0]?.[0])) {
    return `Expected \`thinking\` or \`redacted_thinking\`, but found \`${work[0]?.[0].type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block`;
  }
  if (!isOn && work.flat().some(isThought)) return 'When thinking is disabled, the final turn cannot contain thinking';
  return undefined;
}

export function responsesRefusal(body: Body): string | undefined {
  const bad =
    textRefusal(body) ??
    toolsRefusal(
      body.tools?.map((tool: Body) => [tool.name, tool.parameters]),
      'openai',
    );
  if (bad !== undefined) return bad;
  const items: Body[] = body.input;
  const isSaid = (item: Body): boolean =>
    item !== undefined && (item.type === 'function_call' || item.role === 'assistant');
  const outputs = new Set<string>();
  const ids = new Set<string>();
  const called = new Set<string>();
  for (const [at, item] of items.entries()) {
    if (item.id !== undefined) {
      if (ids.has(item.id)) return `Duplicate item found with id ${item.id}.`;
      ids.add(item.id);
      const begin = { reasoning: 'rs', function_call: 'fc', message: 'msg' }[(item.type ?? 'message') as 'message'];
      if (begin !== undefined && !item.id.startsWith(begin))
        return `Invalid 'input[${at}].id': '${item.id}'. Expected an ID that begins with '${begin}'.`;
    }
    if (item.type === 'function_call') {
      if (called.has(item.call_id)) return `Duplicate call_id ${item.call_id}`;
      called.add(item.call_id);
      if (!/^.{1,64}$/.test(item.call_id)) return `Invalid 'input[${at}].call_id': string too long`;
      if (!/^[a-zA-Z0-9_-]{1,128}$/.test(item.name))
        return `Invalid 'input[${at}].name': string does not match pattern`;
    }
    if (item.type === 'reasoning') {
      const next = items[at + 1];
      if (!(isSaid(next) || next?.type === 'reasoning')) {
        return `Item '${item.id}' of type 'reasoning' was provided without its required following item.`;
      }
      if (!item.encrypted_content)
        return `Item with id '${item.id}' not found. Items are not persisted when store is set to false.`;
    }
    if (item.type === 'function_call') {
      if (!items.some((each) => each.type === 'function_call_output' && each.call_id === item.call_id)) {
        return `No tool output found for function call ${item.call_id}.`;
      }
      JSON.parse(item.arguments);
    }
    if (item.type === 'function_call_output') {
      if (outputs.has(item.call_id)) return 'Duplicate item';
      outputs.add(item.call_id);
      if (!items.slice(0, at).some((each) => each.type === 'function_call' && each.call_id === item.call_id)) {
        return `No tool call found for function call output with call_id ${item.call_id}.`;
      }
    }
    const parts = [item.content, item.output].filter(Array.isArray).flat();
    if (item.role !== undefined && item.content.length === 0) return `input[${at}].content: empty`;
    for (const part of parts) {
      if (part.type !== 'input_image') continue;
      const [, type = '', data = ''] = /^data:([^;]+);base64,(.*)$/s.exec(part.image_url) ?? [];
      if (!ANTHROPIC_IMAGES.includes(type)) return 'You uploaded an unsupported image';
      const refusal = imageRefusal(type, data, 50 * 1024 * 1024);
      if (refusal !== undefined) return refusal;
    }
  }
  return undefined;
}

export function chatRefusal(body: Body): string | undefined {
  const bad =
    textRefusal(body) ??
    toolsRefusal(
      body.tools?.map((tool: Body) => [tool.function.name, tool.function.parameters]),
      'openai',
    );
  if (bad !== undefined) return bad;
  const messages: Body[] = body.messages.filter(({ role }: Body) => role !== 'system');
  for (const [at, message] of messages.entries()) {
    const before = messages[at - 1];
    if (message.role === 'user') {
      if (before?.role === 'user') return 'Conversation roles must alternate user/assistant/user/assistant/...';
      if (message.content === '' || message.content.length === 0) return 'content is empty';
      for (const part of Array.isArray(message.content) ? message.content : []) {
        if (part.type === 'text' && part.text.trim() === '') return 'text content blocks must be non-empty';
        if (part.type !== 'image_url') continue;
        const [, type = '', data = ''] = /^data:([^;]+);base64,(.*)$/s.exec(part.image_url.url) ?? [];
        const refusal = imageRefusal(type, data, 50 * 1024 * 1024);
        if (refusal !== undefined) return refusal;
      }
    }
    if (message.role === 'assistant') {
      const calls: Body[] = message.tool_calls ?? [];
      if (calls.length === 0 && (message.content ?? '').trim() === '')
        return 'an assistant message needs content or tool_calls';
      const results = messages.slice(at + 1, at + 1 + calls.length);
      if (new Set(calls.map(({ id }) => id)).size < calls.length) return 'tool call ids must be unique';
      for (const { id, function: made } of calls) {
        if (!/^.{1,64}$/.test(id)) return 'tool_calls.id: string too long';
        if (!/^[a-zA-Z0-9_-]{1,64}$/.test(made.name)) return `tool_calls.function.name: does not match: ${made.name}`;
        // Templates of models take the arguments apart.
        if (!isOf(JSON.parse(made.arguments), 'object')) return 'tool_calls.function.arguments: expected an object';
      }
      for (const [number, call] of calls.entries()) {
        if (results[number]?.role !== 'tool' || results[number].tool_call_id !== call.id) {
          return `An assistant message with 'tool_calls' must be followed by tool messages: ${call.id}`;
        }
      }
    }
    if (message.role === 'tool') {
      if (before?.role !== 'tool' && !before?.tool_calls)
        return "messages with role 'tool' must be a response to 'tool_calls'";
      if (typeof message.content !== 'string' || message.content.trim() === '') return 'a tool message needs content';
    }
  }
  return undefined;
}

const GOOGLE_IMAGES = ['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'];

export function googleRefusal(body: Body): string | undefined {
  const declared = body.tools?.flatMap((tool: Body) => tool.functionDeclarations ?? []);
  const bad =
    textRefusal(body) ??
    toolsRefusal(
      declared?.map((tool: Body) => [tool.name, tool.parametersJsonSchema ?? tool.parameters]),
      'google',
    );
  if (bad !== undefined) return bad;
  const contents: Body[] = body.contents;
  let inline = 0;
  if (contents[0]?.role !== 'user') return 'Please ensure that the conversation begins with a user turn';
  if (contents.at(-1)?.role !== 'user') return 'Please use a valid role: user, model.';
  for (const [at, { role, parts }] of contents.entries()) {
    for (const { functionCall, functionResponse } of parts) {
      const { name = 'x', args = {}, response = {} } = functionCall ?? functionResponse ?? {};
      if (!/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/.test(name)) return `Invalid function name: ${name}`;
      if (!isOf(args, 'object') || !isOf(response, 'object')) return 'Proto field is not a Struct';
    }
    if (parts.length === 0) return `contents[${at}].parts: must not be empty`;
    const calls = parts.filter((part: Body) => part.functionCall);
    const answers = parts.filter((part: Body) => part.functionResponse);
    if (role === 'model' && calls.length > 0) {
      if (at === 0 || contents[at - 1].role !== 'user') {
        return 'Please ensure that function call turn comes immediately after a user turn or after a function response turn.';
      }
      const next = (contents[at + 1]?.parts ?? []).filter((part: Body) => part.functionResponse);
      if (
        next.some(
          ({ functionResponse }: Body, number: number) => functionResponse.name !== calls[number]?.functionCall.name,
        )
      )
        return 'the names of function responses are not those of the function calls';
      if (next.length !== calls.length) {
        return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.';
      }
    }
    if (answers.length > 0 && !contents[at - 1]?.parts.some((part: Body) => part.functionCall)) {
      return 'Please ensure that function response turn comes immediately after a function call turn.';
    }
    for (const part of parts) {
      if (part.text !== undefined && part.text === '' && part.thoughtSignature === undefined)
        return 'contents.parts: empty text';
      const data = [
        part.inlineData,
        ...(part.functionResponse?.parts ?? []).map((each: Body) => each.inlineData),
      ].filter(Boolean);
      for (const { mimeType, data: base64 } of data) {
        inline += base64.length;
        if (mimeType.startsWith('audio/')) continue;
        if (!GOOGLE_IMAGES.includes(mimeType)) return `Unsupported MIME type: ${mimeType}`;
        const refusal = imageRefusal(mimeType, base64, 20 * 1024 * 1024);
        if (refusal !== undefined) return refusal;
      }
    }
  }
  return inline > 20 * 1024 * 1024 ? 'Request payload size exceeds the limit: 20971520 bytes.' : undefined;
}

const ROOT = ['anyOf', 'oneOf', 'allOf', 'enum', 'not'];

/** Returns the reason why the definitions of tools are refused. */
function toolsRefusal(
  tools: readonly (readonly [name: string, schema: Body])[] = [],
  provider: 'anthropic' | 'openai' | 'google',
): string | undefined {
  if (provider === 'openai' && tools.length > 128)
    return "Invalid 'tools': array too long. Expected an array with maximum length 128";
  const names = new Set<string>();
  for (const [at, [name, schema]] of tools.entries()) {
    if (names.has(name)) return `tools: Tool names must be unique: ${name}`;
    names.add(name);
    if (!/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/.test(name)) return `tools.${at}.name: String should match pattern`;
    const reason = schemaRefusal(schema, provider);
    if (reason !== undefined) return `tools.${at}: Invalid schema for function '${name}': ${reason}`;
  }
  return undefined;
}

/** Returns the reason why the schema of a tool is refused. */
export function schemaRefusal(schema: Body, provider: 'anthropic' | 'openai' | 'google'): string | undefined {
  if (schema?.type !== 'object')
    return `schema must be a JSON Schema of 'type: "object"', got 'type: ${JSON.stringify(schema?.type)}'`;
  if (typeof schema.properties !== 'object') return 'object schema missing properties';
  const atRoot = ROOT.find((name) => name in schema);
  if (atRoot !== undefined) return `input_schema does not support ${atRoot} at the top level`;
  if (provider !== 'google') {
    try {
      schemas.compileNow({ ...schema, $schema: 'https://json-schema.org/draft/2020-12/schema' }, 'tool');
    } catch (error) {
      return `JSON schema is invalid. It must match JSON Schema draft 2020-12 (${(error as Error).message})`;
    }
  }
  return partRefusal(schema, provider, schema, '#');
}

const NAMES = {
  anthropic: /^[a-zA-Z0-9_.-]{1,64}$/,
  openai: /^/,
  google: /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/,
};
const GOOGLE_KEYWORDS =
  /^(?:type|format|title|description|enum|items|minItems|maxItems|minimum|maximum|anyOf|properties|additionalProperties|required)$/;

function partRefusal(
  schema: Body,
  provider: 'anthropic' | 'openai' | 'google',
  root: Body,
  at: string,
): string | undefined {
  if (typeof schema === 'boolean') return provider === 'google' ? `${at}: must be a schema` : undefined;
  const types = [schema.type].flat();
  if (schema.$ref !== undefined) {
    if (provider === 'google') return `${at}: Unknown name "$ref"`;
    const name = /^#\/\$defs\/(\w+)$/.exec(schema.$ref)?.[1];
    if (name === undefined || root.$defs?.[name] === undefined) return `${at}: PointerToNowhere: ${schema.$ref}`;
  }
  if (provider !== 'anthropic' && types.includes('array') && typeof schema.items !== 'object')
    return `${at}: array schema missing items`;
  if (Array.isArray(schema.items)) return `${at}: items must be a schema`;
  for (const word of schema.enum ?? []) {
    if (schema.type !== undefined && !types.some((type: string) => isOf(word, type)))
      return `${at}: enum value does not validate`;
    if (provider === 'google' && typeof word !== 'string') return `${at}.enum: (TYPE_STRING), ${word}`;
  }
  if (schema.enum?.length === 0) return `${at}: [] should be non-empty`;
  if (provider === 'google') {
    const unknown = Object.keys(schema).find((name) => !GOOGLE_KEYWORDS.test(name));
    if (unknown !== undefined) return `Unknown name "${unknown}" at '${at}': Cannot find field.`;
    if (schema.type === undefined && schema.anyOf === undefined) return `${at}: didn't specify the schema type field`;
    const ghost = schema.required?.find((name: string) => !Object.hasOwn(schema.properties ?? {}, name));
    if (ghost !== undefined) return `${at}.required: property is not defined: ${ghost}`;
  }
  for (const [name, value] of Object.entries(schema.properties ?? {})) {
    if (!NAMES[provider].test(name)) return `${at}: Property keys should match pattern: ${name}`;
    const refusal = partRefusal(value, provider, root, `${at}/${name}`);
    if (refusal !== undefined) return refusal;
  }
  const below = [
    schema.items,
    schema.additionalProperties,
    schema.not,
    schema.contains,
    schema.if,
    schema.then,
    schema.else,
  ];
  for (const list of [schema.anyOf, schema.oneOf, schema.allOf, schema.prefixItems, Object.values(schema.$defs ?? {})])
    below.push(...(list ?? []));
  for (const [number, each] of below.entries()) {
    if (each === undefined || (typeof each === 'boolean' && provider !== 'google')) continue;
    const refusal = partRefusal(each, provider, root, `${at}/${number}`);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function isOf(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  return type === 'object'
    ? typeof value === 'object' && value !== null && !Array.isArray(value)
    : typeof value === type;
}
