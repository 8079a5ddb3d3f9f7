/** A plugin with the tools that the official conformance suite expects of a server, under the names it calls. */
import { setTimeout as sleep } from 'node:timers/promises';
import { tool, toolsPlugin } from 'handfast';
import { toolCall } from 'handfast/capability';
import { askModel, askPerson, askRoots } from 'handfast/tools';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const text = (value) => ({ type: 'text', text: value });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const resource = (uri, mimeType, value) => ({ type: 'resource', resource: { uri, mimeType, text: value } });
/** A tool that gives blocks of content. */
const gives = (name, content) =>
  tool({ name, description: `Gives content: ${name}`, kind: 'mcp', risks: [], run: () => ({ content }) });

const object = (properties = {}, required = []) => ({ type: 'object', properties, required });
const string = { type: 'string' };
const plain = (name, run, input = object()) => tool({ name, description: `Test: ${name}`, input, run });

const DEFAULTS = object({
  name: { ...string, default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { ...string, enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
});
const options = ['option1', 'option2', 'option3'];
const titled = (word) =>
  ['First', 'Second', 'Third'].map((n, at) => ({ const: `value${at + 1}`, title: `${n} ${word}` }));
const ENUMS = object({
  untitledSingle: { ...string, enum: options },
  titledSingle: { ...string, oneOf: titled('Option') },
  legacyEnum: {
    ...string,
    enum: ['opt1', 'opt2', 'opt3'],
    enumNames: ['Option One', 'Option Two', 'Option Three'],
  },
  untitledMulti: { type: 'array', items: { ...string, enum: options } },
  titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
});
/** A tool that asks for a form and says what came back. */
const elicits = (name, schema) =>
  plain(name, async (_args, context) => {
    const { action, content } = await askPerson(context, { message: 'Please fill in', schema });
    return `Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`;
  });

const NAME = { name: 'user_name', message: 'What is your name?', schema: object({ name: string }, ['name']) };
const confirms = (context) =>
  askPerson(context, {
    name: 'confirm',
    message: 'Please confirm',
    schema: object({ ok: { type: 'boolean' } }, ['ok']),
  });

/** Tools that ask their caller. */
const asking = [
  plain(
    'test_sampling',
    async ({ prompt }, context) => {
      const { content } = await askModel(context, { messages: prompt, maxTokens: 100 });
      return `LLM response: ${content.text}`;
    },
    object({ prompt: string }, ['prompt']),
  ),
  plain(
    'test_elicitation',
    async ({ message }, context) => {
      const schema = object({ username: string, email: string }, ['username', 'email']);
      return `User response: ${JSON.stringify(await askPerson(context, { message, schema }))}`;
    },
    object({ message: string }, ['message']),
  ),
  elicits('test_elicitation_sep1034_defaults', DEFAULTS),
  elicits('test_elicitation_sep1330_enums', ENUMS),
  plain('test_input_required_result_elicitation', async (_args, context) => {
    const { content } = await askPerson(context, NAME);
    return `Hello, ${content?.name}!`;
  }),
  plain('test_input_required_result_sampling', async (_args, context) => {
    const messages = 'What is the capital of France?';
    return (await askModel(context, { name: 'capital_question', messages, maxTokens: 100 })).content.text;
  }),
  plain('test_input_required_result_list_roots', async (_args, context) =>
    (await askRoots(context, { name: 'client_roots' })).map(({ uri }) => uri).join(),
  ),
  plain('test_input_required_result_request_state', async (_args, context) => {
    const { action } = await confirms(context);
    return `state-ok: ${action}`;
  }),
  plain('test_input_required_result_multiple_inputs', async (_args, context) =>
    JSON.stringify(
      await Promise.all([
        askPerson(context, NAME),
        askModel(context, { name: 'greeting', messages: 'Generate a greeting', maxTokens: 50 }),
        askRoots(context, { name: 'client_roots' }),
      ]),
    ),
  ),
  plain('test_input_required_result_multi_round', async (_args, context) => {
    const one = await askPerson(context, {
      name: 'step1',
      message: 'Step 1: What is your name?',
      schema: object({ name: string }, ['name']),
    });
    const two = await askPerson(context, {
      name: 'step2',
      message: 'Step 2: What is your favorite color?',
      schema: object({ color: string }, ['color']),
    });
    return `${one.content?.name} likes ${two.content?.color}`;
  }),
  plain('test_input_required_result_tampered_state', async (_args, context) => (await confirms(context)).action),
  plain('test_input_required_result_capabilities', async (_args, context) => {
    const asked = await Promise.allSettled([
      askPerson(context, NAME),
      askModel(context, { name: 'greeting', messages: 'Generate a greeting', maxTokens: 50 }),
    ]);
    return asked.map(({ status }) => status).join();
  }),
  plain('test_missing_capability', async (_args, context) => {
    await askModel(context, { messages: 'hello', maxTokens: 10 });
    return 'answered';
  }),
  elicits('test_streaming_elicitation', DEFAULTS),
];

/** Longer than the suite reads one stream. */
const RECONNECTION_MS = 17_000;
let added = 0;

const others = [
  plain('test_reconnection', async (_args, { signal }) => {
    await sleep(RECONNECTION_MS, undefined, { signal });
    return 'Reconnection test completed';
  }),
  plain('test_logging_tool', async (_args, { emit }) => {
    await emit('log', { level: 'info', message: 'logged' });
    return 'logged';
  }),
  plain('test_trigger_tool_change', async () => {
    await plugin.add([plain(`added_${++added}`, () => 'added')]);
    return 'changed';
  }),
  plain('test_trigger_prompt_change', async (_args, context) => {
    await context.call(toolCall, { tool_name: 'contents__change', arguments: {} });
    return 'changed';
  }),
  plain(
    'test_custom_header',
    ({ region }) => `region ${region}`,
    object({ region: { ...string, 'x-mcp-header': 'Region' } }, ['region']),
  ),
  plain('json_schema_2020_12_tool', () => 'ok', {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
    properties: {
      name: string,
      address: { $ref: '#/$defs/address' },
      contactMethod: { ...string, enum: ['phone', 'email'] },
      phone: string,
      email: string,
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }),
];

export const plugin = toolsPlugin({
  name: 'conformance',
  tools: [
    gives('test_simple_text', [text('This is a simple text response for testing.')]),
    gives('test_image_content', [image]),
    gives('test_audio_content', [{ type: 'audio', data: SILENCE, mimeType: 'audio/wav' }]),
    gives('test_embedded_resource', [
      resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
    ]),
    gives('test_multiple_content_types', [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ]),
    tool({
      name: 'test_error_handling',
      description: 'Fails',
      run() {
        throw new Error('This tool intentionally returns an error for testing');
      },
    }),
    tool({
      name: 'test_tool_with_logging',
      description: 'Logs',
      async run(_args, { emit }) {
        for (const message of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
          await emit('log', { level: 'info', message });
          await sleep(50);
        }
        return 'Tool with logging executed successfully';
      },
    }),
    tool({
      name: 'test_tool_with_progress',
      description: 'Reports progress',
      async run(_args, { emit }) {
        for (const pct of [0, 50, 100]) {
          await emit('progress', { pct, message: `Completed step ${pct} of 100` });
          await sleep(50);
        }
        return 'done';
      },
    }),
    ...asking,
    ...others,
  ],
});
