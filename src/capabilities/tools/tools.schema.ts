/**
 * The messages of the tools capability as schemas.
 *
 * @see docs/protocol/a2e.md#tool-messages
 */
import { answer, base, eventFields, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T, description: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description }));

export const ToolParameter = Type.Object(
  {
    name: Type.String({ description: 'The field.' }),
    type: Type.String({ description: 'string, integer, number, boolean, object or array.' }),
    description: Type.String({ description: 'For people and models.' }),
    required: Type.Optional(Type.Boolean({ description: 'True when it must be given.' })),
    enum: orNull(Type.Array(Type.String()), 'The only values allowed, or null.'),
    properties: Type.Optional(Type.Unknown({ description: 'For objects: ToolParameter by name, or null.' })),
  },
  { description: 'One argument or result field of a tool.' },
);

export const ToolDescription = Type.Object(
  {
    name: Type.String({ description: 'Unique in its host.' }),
    description: Type.String({ description: 'Its effect and when to use it, for models.' }),
    input_parameters: Type.Optional(Type.Array(ToolParameter, { description: 'Its arguments, in the flat form.' })),
    output_parameters: Type.Optional(Type.Array(ToolParameter, { description: 'Its result, in the flat form.' })),
    streaming: Type.Optional(Type.Boolean({ description: 'Can send tool/event.' })),
    idempotent: Type.Optional(Type.Boolean({ description: 'Repeating a call does no more than one call.' })),
    tags: Type.Optional(Type.Array(Type.String(), { description: 'Labels that filter_tags selects.' })),
    version: Type.Optional(Type.String({ description: 'Version of the tool itself.' })),
    toolkit: orNull(Type.String(), 'The toolkit it belongs to, or null.'),
    defer_loading: Type.Optional(Type.Boolean({ description: 'Hidden from plain lists.' })),
    input_schema: Type.Optional(anyObject('Full JSON Schema of the arguments.')),
    output_schema: Type.Optional(anyObject('Full JSON Schema of the result data.')),
    kind: Type.Optional(Type.String({ description: 'Free label that filter_kind selects.' })),
    risks: Type.Optional(Type.Array(Type.String(), { description: 'reads, writes, destructive, network, exec.' })),
  },
  { description: 'ToolDefinition of the wire: what a caller may know of a tool.' },
);

export const ToolListReq = Type.Object(
  {
    ...base,
    type: Type.Literal('tool/list/req'),
    filter_kind: Type.Optional(Type.String({ description: 'Only tools of this kind; empty for all.' })),
    filter_tags: Type.Optional(
      Type.Array(Type.String(), { description: 'Only tools that have every one of these tags.' }),
    ),
    query: Type.Optional(Type.String({ description: 'Search words; empty lists all.' })),
    include_deferred: Type.Optional(Type.Boolean({ description: 'Also tools that plain lists leave out.' })),
  },
  { ...fromAgent, description: 'Lists or searches tools.' },
);

export const ToolListResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('tool/list/resp'),
    tools: Type.Optional(Type.Array(ToolDescription, { description: 'The tools this principal may call.' })),
  },
  { ...fromHost, description: 'The tools found; with a query, the best match first.' },
);

export const ToolCallReq = Type.Object(
  {
    ...base,
    type: Type.Literal('tool/call/req'),
    session_id: Type.Optional(Type.String({ description: 'The handshake session; empty is fine.' })),
    tool_name: Type.Optional(Type.String({ description: 'The tool to call.' })),
    arguments: anyObject('Checked against the tool’s own schema.'),
    correlation_id: Type.Optional(Type.String({ description: 'Free text of the caller; journaled with the request.' })),
    streaming: Type.Optional(Type.Boolean({ description: 'Ask for tool/event messages.' })),
    timeout: Type.Optional(
      Type.Number({ minimum: 0, description: 'Seconds; default 30. 0 means the host’s default.' }),
    ),
  },
  { ...fromAgent, description: 'Calls a tool.' },
);

export const ToolEvent = Type.Object(
  { ...eventFields, type: Type.Literal('tool/event') },
  { ...fromHost, description: 'Something that happened while a tool runs.' },
);

export const ToolResult = Type.Object(
  {
    success: Type.Boolean({ description: 'False in answers of hosts that do not send an error instead.' }),
    tool_name: Type.String({ description: 'The tool that was called.' }),
    data: Type.Optional(Type.Unknown({ description: 'The value that the tool returned.' })),
    summary: Type.Optional(Type.Unknown({ description: 'One line for people and models, or null.' })),
    truncated: orNull(Type.Boolean(), 'True when there is more than what is returned.'),
    exit_code: orNull(Type.Integer(), 'Of a program, else null.'),
    error: orNull(Type.String(), 'The error when success is false.'),
    error_code: orNull(Type.String(), 'Its code.'),
    duration_ms: Type.Integer({ description: 'Whole milliseconds.' }),
    events: Type.Optional(Type.Array(Type.Unknown(), { description: 'Unused here: events are messages.' })),
  },
  { description: 'The outcome of a call.' },
);

export const ToolCallResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('tool/call/resp'),
    data: ToolResult,
    created_at: Type.Optional(Type.Number({ description: 'Epoch seconds.' })),
  },
  { ...fromHost, description: 'The result of a call.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const toolsSchemas = {
  ToolListReq,
  ToolListResp,
  ToolDescription,
  ToolParameter,
  ToolCallReq,
  ToolEvent,
  ToolCallResp,
  ToolResult,
};

export type ToolParameter = Static<typeof ToolParameter>;
export type ToolDescription = Static<typeof ToolDescription>;
export type ToolListReq = Static<typeof ToolListReq>;
export type ToolListResp = Static<typeof ToolListResp>;
export type ToolCallReq = Static<typeof ToolCallReq>;
export type ToolCallResp = Static<typeof ToolCallResp>;
export type ToolResult = Static<typeof ToolResult>;
