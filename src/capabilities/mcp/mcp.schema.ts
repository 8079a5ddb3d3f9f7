/**
 * The messages of the mcp capability as schemas. `messages.ts` makes method values of them.
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
  timeout: may(Type.Integer({ minimum: 0, description: 'Longest call without progress, seconds. Default 300.' })),
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
  { ...answer, type: Literal('mcp/server/accept/resp'), server: ServerInfo, accepted: texts('What was accepted.') },
  { ...fromHost, description: 'The tools can be called.' },
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
  ServerConfig,
  ServerInfo,
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
export type ServerConfig = Of<'ServerConfig'>;
export type ServerInfo = Of<'ServerInfo'>;
export type Refusal = Of<'Refusal'>;
