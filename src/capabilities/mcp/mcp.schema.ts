/**
 * The messages of the mcp capability as schemas.
 *
 * Those of A2E 1.0 come first. Fields that it does not have are optional, and so are the further messages.
 * @see docs/mcp.md
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, shape } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const { Literal, Object: object, Optional: may } = Type;

const text = (description: string) => Type.String({ description });
const mayText = (description: string) => may(text(description));
const flag = (description: string) => Type.Boolean({ description });
const number = (description: string) => Type.Number({ description });
const count = (description: string) => may(Type.Integer({ minimum: 0, description }));
const texts = (description: string) => Type.Array(Type.String(), { description });
const serverId = text('The name of a server.');
const map = (description: string) =>
  Type.Unsafe<Readonly<Record<string, string>>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description,
  });

const Refusal = shape('Why the host refused a request.', {
  code: text('E.g. mcp_server_not_found.'),
  message: text('For people.'),
  detail: may(anyObject('By code.')),
  retryable: may(flag('The same request may succeed later.')),
});
const refusal = may(Refusal);

const ServerConfig = shape('A server that an agent adds.', {
  server_id: mayText('Its name here; empty: the host makes one.'),
  name: mayText('For people.'),
  transport: mayText('stdio, or sse: streamable HTTP. Default stdio.'),
  cmd: may(texts('Program and arguments.')),
  cwd: mayText('Its folder, within the workspace.'),
  env: may(map('Its environment variables.')),
  url: mayText('Its address.'),
  headers: may(map('Headers sent to it.')),
  timeout: may(
    Type.Integer({
      minimum: 0,
      description: 'Longest call without progress, and longest start, seconds. Default 300; a start has at most 60.',
    }),
  ),
  auto_reconnect: may(flag('It is started again by itself. Default true.')),
  tool_allow_list: may(texts('Only these of its tools; empty: all.')),
  resource_allow_list: may(texts('Only these of its resources; empty: all.')),
});

const ServerInfo = shape('A server as it is now.', {
  server_id: serverId,
  name: text('For people.'),
  transport: text('stdio, or sse: streamable HTTP.'),
  status: mayText('connecting, ready, error, disconnected.'),
  mcp_version: mayText('The negotiated revision of the protocol.'),
  server_name: mayText('As it names itself.'),
  server_version: mayText('As it says.'),
  tools_count: count('Its tools that can be called.'),
  resources_count: count('Its resources, as last listed.'),
  prompts_count: count('Its prompts, as last listed.'),
  last_ping_ms: may(number('How long its last reply took.')),
  error: mayText('Why it is not ready.'),
  connected_at: may(number('Epoch seconds; 0: it is not connected.')),
  health: may(
    Type.Unsafe<'idle' | 'starting' | 'ready' | 'failed' | 'needs_auth' | 'timeout' | 'closed' | 'disabled'>({
      enum: ['idle', 'starting', 'ready', 'failed', 'needs_auth', 'timeout', 'closed', 'disabled'],
      description: 'idle: it was not needed yet.',
    }),
  ),
  stderr: may(texts('The last lines of its standard error; for administrators.')),
  failures: count('Failures since it last ran well.'),
  retry_after_ms: may(number('When it may be started again.')),
  required: may(flag('The host does not start without it.')),
  shared: may(flag('All sessions share one.')),
  registered: may(flag('An agent added it to this session.')),
  tools_changed: may(texts('Tools whose definition is not the accepted one: they cannot be called.')),
});

const ServerRegisterReq = object(
  { ...base, type: Literal('mcp/server/register/req'), config: may(ServerConfig) },
  { ...fromAgent, description: 'Adds a server to the session. Only with a grant.' },
);
const ServerRegisterResp = object(
  {
    ...answer,
    type: Literal('mcp/server/register/resp'),
    ok: flag('False: see error.'),
    server: may(Type.Partial(ServerInfo, { description: 'The server; empty where it was refused.' })),
    error: mayText('Why it was refused.'),
    refusal,
  },
  { ...fromHost, description: 'The server is there, and its tools are.' },
);

const ServerListReq = object(
  {
    ...base,
    type: Literal('mcp/server/list/req'),
    status_filter: mayText('Only of this status.'),
  },
  { ...fromAgent, description: 'Lists the servers the principal may use. Starts none.' },
);
const ServerListResp = object(
  {
    ...answer,
    type: Literal('mcp/server/list/resp'),
    servers: Type.Array(ServerInfo, { description: 'By name.' }),
  },
  { ...fromHost, description: 'The servers.' },
);

const ServerUnregisterReq = object(
  { ...base, type: Literal('mcp/server/unregister/req'), server_id: serverId },
  { ...fromAgent, description: 'Removes a server that this session added, with its tools.' },
);
const ServerUnregisterResp = object(
  {
    ...answer,
    type: Literal('mcp/server/unregister/resp'),
    ok: flag('False: this session added no such server.'),
    server_id: serverId,
    refusal,
  },
  { ...fromHost, description: 'The server has ended.' },
);

const ServerPush = object(
  {
    ...base,
    type: Literal('mcp/server/push'),
    server_id: serverId,
    method: text('As the server named it, e.g. notifications/tools/list_changed.'),
    params: anyObject('As the server sent them.'),
  },
  { ...fromHost, description: 'A server sent a notification.' },
);

const ServerAcceptReq = object(
  {
    ...base,
    type: Literal('mcp/server/accept/req'),
    server_id: serverId,
    tools: may(texts('Names as the server has them; empty: all.')),
  },
  { ...fromAgent, description: 'Accepts changed definitions of tools. Only with a grant.' },
);
const ServerAcceptResp = object(
  { ...answer, type: Literal('mcp/server/accept/resp'), server: ServerInfo, accepted: texts('The accepted tools.') },
  { ...fromHost, description: 'The tools can be called.' },
);

const cursor = mayText('next_cursor of the page before.');
const nextCursor = mayText('Empty: this is the last page.');
const anyServer = mayText('Empty: of every server the principal may use.');
const mayFail = { error: mayText('Why there is nothing.'), refusal };

const Resource = shape('A resource of a server.', {
  uri: text('Its address.'),
  name: mayText('For people.'),
  description: mayText('For people and models.'),
  mime_type: mayText('Where known.'),
  server_id: mayText('Its server.'),
  annotations: may(anyObject('As the server sent them.')),
});

const ResourceContent = shape('A part of a resource.', {
  uri: text('Its address.'),
  mime_type: mayText('Default text/plain.'),
  text: mayText('The text.'),
  blob: mayText('Or the bytes, in base64.'),
  type: mayText('text or blob.'),
});

const Prompt = shape('A prompt of a server.', {
  name: text('Its name there.'),
  description: mayText('For people and models.'),
  server_id: mayText('Its server.'),
  arguments: may(Type.Array(anyObject(), { description: '{name, description, required}.' })),
});

const PromptMessage = shape('A message of a prompt.', {
  role: text('user or assistant.'),
  content: anyObject('A block of the protocol, e.g. {type: "text", text}.'),
});

const ResourceListReq = object(
  { ...base, type: Literal('mcp/resource/list/req'), server_id: anyServer, cursor },
  { ...fromAgent, description: 'Lists resources.' },
);
const ResourceListResp = object(
  {
    ...answer,
    type: Literal('mcp/resource/list/resp'),
    resources: Type.Array(Resource, { description: 'By server.' }),
    next_cursor: nextCursor,
  },
  { ...fromHost, description: 'The resources. Servers that cannot be used are left out, unless one was named.' },
);

const ResourceReadReq = object(
  {
    ...base,
    type: Literal('mcp/resource/read/req'),
    uri: text('The address.'),
    server_id: mayText('Empty: the server that lists it.'),
  },
  { ...fromAgent, description: 'Reads a resource.' },
);
const ResourceReadResp = object(
  {
    ...answer,
    type: Literal('mcp/resource/read/resp'),
    contents: Type.Array(ResourceContent, { description: 'Its parts.' }),
    server_id: mayText('Its server.'),
    ...mayFail,
  },
  { ...fromHost, description: 'The resource.' },
);

const ResourceSubscribeReq = object(
  {
    ...base,
    type: Literal('mcp/resource/subscribe/req'),
    uri: text('The address.'),
    server_id: mayText('Empty: the server that lists it.'),
  },
  { ...fromAgent, description: 'Subscribes the session to changes of a resource, which arrive as mcp/server/push.' },
);
const ResourceSubscribeResp = object(
  { ...answer, type: Literal('mcp/resource/subscribe/resp'), ok: flag('False: see error.'), ...mayFail },
  { ...fromHost, description: 'The subscription is there, also after a restart of the server.' },
);

const ResourceUnsubscribeReq = object(
  {
    ...base,
    type: Literal('mcp/resource/unsubscribe/req'),
    uri: text('The address.'),
    server_id: mayText('Empty: of every server.'),
  },
  { ...fromAgent, description: 'Ends a subscription of this session.' },
);
const ResourceUnsubscribeResp = object(
  { ...answer, type: Literal('mcp/resource/unsubscribe/resp'), ok: flag('False: there was none.') },
  { ...fromHost, description: 'The subscription has ended.' },
);

const PromptListReq = object(
  { ...base, type: Literal('mcp/prompt/list/req'), server_id: anyServer, cursor },
  { ...fromAgent, description: 'Lists prompts.' },
);
const PromptListResp = object(
  {
    ...answer,
    type: Literal('mcp/prompt/list/resp'),
    prompts: Type.Array(Prompt, { description: 'By server.' }),
    next_cursor: nextCursor,
  },
  { ...fromHost, description: 'The prompts. Servers that cannot be used are left out, unless one was named.' },
);

const PromptGetReq = object(
  {
    ...base,
    type: Literal('mcp/prompt/get/req'),
    name: text('Its name.'),
    arguments: may(anyObject('Its arguments: texts.')),
    server_id: mayText('Empty: the server that lists it.'),
  },
  { ...fromAgent, description: 'Reads a prompt with its arguments filled in.' },
);
const PromptGetResp = object(
  {
    ...answer,
    type: Literal('mcp/prompt/get/resp'),
    description: mayText('For people.'),
    messages: Type.Array(PromptMessage, { description: 'The messages to send to a model.' }),
    server_id: mayText('Its server.'),
    ...mayFail,
  },
  { ...fromHost, description: 'The prompt.' },
);

const ResourceTemplate = shape('A family of resources of a server.', {
  uri_template: text('Their addresses, with variables in braces, e.g. notes://{day}.'),
  name: mayText('For people.'),
  description: mayText('For people and models.'),
  mime_type: mayText('Where it is that of all.'),
  server_id: mayText('Its server.'),
  annotations: may(anyObject('As the server sent them.')),
});

const ResourceTemplateListReq = object(
  { ...base, type: Literal('mcp/resource/template/list/req'), server_id: anyServer, cursor },
  { ...fromAgent, description: 'Lists templates of resources.' },
);
const ResourceTemplateListResp = object(
  {
    ...answer,
    type: Literal('mcp/resource/template/list/resp'),
    templates: Type.Array(ResourceTemplate, { description: 'By server.' }),
    next_cursor: nextCursor,
  },
  { ...fromHost, description: 'The templates. Servers that cannot be used are left out, unless one was named.' },
);

const CompleteReq = object(
  {
    ...base,
    type: Literal('mcp/complete/req'),
    prompt: mayText('The prompt whose argument is completed.'),
    uri_template: mayText('Or the template whose variable is completed.'),
    argument: text('The name of the argument or variable.'),
    value: text('The text typed so far.'),
    arguments: may(map('The other arguments, as far as they are known.')),
    server_id: mayText('Empty: the server that lists the prompt or template.'),
  },
  { ...fromAgent, description: 'Asks what an argument may become.' },
);
const CompleteResp = object(
  {
    ...answer,
    type: Literal('mcp/complete/resp'),
    values: texts('At most 100, the best first.'),
    total: count('How many there are, where the server says so.'),
    has_more: may(flag('There are more.')),
    server_id: mayText('Its server.'),
  },
  { ...fromHost, description: 'The values; none where the server completes nothing.' },
);

const askId = mayText('The number of the question at its server.');

const SampleReq = object(
  {
    ...base,
    type: Literal('mcp/sample/req'),
    server_id: mayText('The server that asks.'),
    mcp_request_id: askId,
    messages: may(Type.Array(anyObject(), { description: '{role, content}, as the server sent them.' })),
    model_preferences: may(anyObject('As the server sent them.')),
    system_prompt: mayText('The system prompt that the server wants.'),
    include_context: mayText('none, thisServer or allServers.'),
    temperature: may(number('As the server wants it.')),
    max_tokens: may(Type.Integer({ description: 'Most tokens of the answer.' })),
    stop_sequences: may(texts('The answer ends before them.')),
    metadata: may(anyObject('As the server sent them.')),
  },
  {
    ...fromHost,
    description: 'A server asks for the answer of a model. The agent decides, and may show it to a person.',
  },
);
const SampleResp = object(
  {
    ...answer,
    type: Literal('mcp/sample/resp'),
    server_id: mayText('That of the request.'),
    mcp_request_id: askId,
    role: mayText('assistant.'),
    content: may(anyObject('A block of the protocol, e.g. {type: "text", text}.')),
    model: mayText('The model that answered.'),
    stop_reason: mayText('endTurn, stopSequence, maxTokens.'),
    error: mayText('Not empty: the agent refuses, and why.'),
  },
  { ...fromAgent, description: 'The answer, or a refusal.' },
);

const ElicitReq = object(
  {
    ...base,
    type: Literal('mcp/elicit/req'),
    server_id: serverId,
    mcp_request_id: askId,
    mode: Type.Unsafe<'form' | 'url'>({
      enum: ['form', 'url'],
      description: 'url: the person is asked to open an address.',
    }),
    message: text('For the person.'),
    requested_schema: may(anyObject('Of mode form: JSON Schema of what is asked for, an object of plain values.')),
    url: mayText('Of mode url. Never opened without the word of a person.'),
    elicitation_id: mayText('Of mode url: named by notifications/elicitation/complete.'),
  },
  { ...fromHost, description: 'A server asks a person something.' },
);
const ElicitResp = object(
  {
    ...answer,
    type: Literal('mcp/elicit/resp'),
    action: Type.Unsafe<'accept' | 'decline' | 'cancel'>({
      enum: ['accept', 'decline', 'cancel'],
      description: 'cancel: the person said neither.',
    }),
    content: may(anyObject('The requested data, of accept.')),
  },
  { ...fromAgent, description: 'The answer of the person.' },
);

const RootListReq = object(
  { ...base, type: Literal('mcp/root/list/req'), mcp_request_id: askId },
  { ...fromHost, description: 'A tool of the host asks which folders its caller works in.' },
);
const RootListResp = object(
  {
    ...answer,
    type: Literal('mcp/root/list/resp'),
    roots: Type.Array(anyObject('{uri, name}: a file:// address, and its name for people.'), {
      description: 'At most 100.',
      maxItems: 100,
    }),
  },
  { ...fromAgent, description: 'The folders.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const mcpSchemas = {
  ServerRegisterReq,
  ServerRegisterResp,
  ServerListReq,
  ServerListResp,
  ServerUnregisterReq,
  ServerUnregisterResp,
  ServerPush,
  ServerAcceptReq,
  ServerAcceptResp,
  ResourceListReq,
  ResourceListResp,
  ResourceReadReq,
  ResourceReadResp,
  ResourceSubscribeReq,
  ResourceSubscribeResp,
  ResourceUnsubscribeReq,
  ResourceUnsubscribeResp,
  PromptListReq,
  PromptListResp,
  PromptGetReq,
  PromptGetResp,
  ResourceTemplateListReq,
  ResourceTemplateListResp,
  CompleteReq,
  CompleteResp,
  SampleReq,
  SampleResp,
  ElicitReq,
  ElicitResp,
  RootListReq,
  RootListResp,
  ServerConfig,
  ServerInfo,
  Resource,
  ResourceTemplate,
  ResourceContent,
  Prompt,
  PromptMessage,
  Refusal,
};

type Of<Name extends keyof typeof mcpSchemas> = Static<(typeof mcpSchemas)[Name]>;

export type ServerRegisterReq = Of<'ServerRegisterReq'>;
export type ServerRegisterResp = Of<'ServerRegisterResp'>;
export type ServerListReq = Of<'ServerListReq'>;
export type ServerListResp = Of<'ServerListResp'>;
export type ServerUnregisterReq = Of<'ServerUnregisterReq'>;
export type ServerUnregisterResp = Of<'ServerUnregisterResp'>;
export type ServerPush = Of<'ServerPush'>;
export type ServerAcceptReq = Of<'ServerAcceptReq'>;
export type ServerAcceptResp = Of<'ServerAcceptResp'>;
export type ResourceListReq = Of<'ResourceListReq'>;
export type ResourceListResp = Of<'ResourceListResp'>;
export type ResourceReadReq = Of<'ResourceReadReq'>;
export type ResourceReadResp = Of<'ResourceReadResp'>;
export type ResourceSubscribeReq = Of<'ResourceSubscribeReq'>;
export type ResourceSubscribeResp = Of<'ResourceSubscribeResp'>;
export type ResourceUnsubscribeReq = Of<'ResourceUnsubscribeReq'>;
export type ResourceUnsubscribeResp = Of<'ResourceUnsubscribeResp'>;
export type PromptListReq = Of<'PromptListReq'>;
export type PromptListResp = Of<'PromptListResp'>;
export type PromptGetReq = Of<'PromptGetReq'>;
export type PromptGetResp = Of<'PromptGetResp'>;
export type ResourceTemplateListReq = Of<'ResourceTemplateListReq'>;
export type ResourceTemplateListResp = Of<'ResourceTemplateListResp'>;
export type CompleteReq = Of<'CompleteReq'>;
export type CompleteResp = Of<'CompleteResp'>;
export type SampleReq = Of<'SampleReq'>;
export type SampleResp = Of<'SampleResp'>;
export type ElicitReq = Of<'ElicitReq'>;
export type ElicitResp = Of<'ElicitResp'>;
export type RootListReq = Of<'RootListReq'>;
export type RootListResp = Of<'RootListResp'>;
export type Resource = Of<'Resource'>;
export type ResourceTemplate = Of<'ResourceTemplate'>;
export type ResourceContent = Of<'ResourceContent'>;
export type Prompt = Of<'Prompt'>;
export type PromptMessage = Of<'PromptMessage'>;
export type ServerConfig = Of<'ServerConfig'>;
export type ServerInfo = Of<'ServerInfo'>;
export type Refusal = Of<'Refusal'>;
