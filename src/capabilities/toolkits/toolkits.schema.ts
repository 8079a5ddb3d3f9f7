/**
 * The messages of the toolkits capability as schemas.
 *
 * The two pairs of A2E 1.0 come first. Fields that it does not have are optional, and so are the further messages.
 * @see docs/toolkits.md
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import { ToolDescription } from '../tools/tools.schema.ts';

const { Literal, Object: object } = Type;
const mayText = (description: string) => may(text(description));
const texts = (description: string) => Type.Array(Type.String(), { description });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const toolkitName = mayText('The name of a toolkit.');
const sessionId = mayText('The session it is for; empty: the own one.');

const FieldError = shape('A field of a configuration that does not fit.', {
  path: text('JSON Pointer of the field.'),
  message: text('The expected value.'),
});

const Refusal = shape('Why a configuration was refused.', {
  code: text('toolkits.unknown, toolkits.invalid, … see docs/toolkits.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts; row names the row of docs/errors.md.')),
});

const ToolkitInfo = shape('A toolkit, as it is in a session.', {
  name: text('Its name.'),
  alias: mayText('A shorter name.'),
  description: mayText('Its purpose.'),
  category: mayText('Free label that filter_kind selects.'),
  tags: may(texts('Labels that filter_tags selects.')),
  icon_svg: may(orNull(Type.String({ description: 'An icon, or null.' }))),
  schema: may(
    anyObject('JSON Schema of its configuration. Fields of format secret hold the name of a secret of the host.'),
  ),
  tools: texts('The names of its tools that this principal may call.'),
  configured: may(flag('This session configured it. Its values are never sent.')),
  version: mayText('Its version.'),
  enabled: may(flag('Its tools can be called in this session.')),
  deferred: may(flag('Its tools are found by search, and left out of plain lists until then.')),
  listed: may(texts('Those of its tools that plain lists have now.')),
  tokens: may(count('The tokens that the definitions of all its tools cost a model, estimated.')),
  listed_tokens: may(count('The tokens that the definitions in plain lists cost now.')),
});

const ToolkitListReq = object(
  {
    ...base,
    type: Literal('toolkit/list/req'),
    filter_kind: mayText('Only toolkits of this category; empty for all.'),
    filter_tags: may(texts('Only toolkits that have every one of these tags.')),
    session_id: sessionId,
  },
  { ...fromAgent, description: 'Lists the toolkits that the principal may use.' },
);
const ToolkitListResp = object(
  {
    ...answer,
    type: Literal('toolkit/list/resp'),
    toolkits: Type.Array(ToolkitInfo, { description: 'In the order of the host.' }),
  },
  { ...fromHost, description: 'The toolkits.' },
);

const ToolkitConfigureReq = object(
  {
    ...base,
    type: Literal('toolkit/configure/req'),
    session_id: sessionId,
    toolkit_name: toolkitName,
    config: may(anyObject('Values for its schema, in place of earlier ones. The journal stores none of them.')),
  },
  { ...fromAgent, description: 'Configures a toolkit for a session, and enables it there.' },
);
const ToolkitConfigureResp = object(
  {
    ...answer,
    type: Literal('toolkit/configure/resp'),
    toolkit_name: text('The toolkit.'),
    status: text('ok or error.'),
    message: may(orNull(Type.String({ description: 'Why it was refused, or null.' }))),
    errors: may(Type.Array(FieldError, { description: 'The fields that do not fit.' })),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'The outcome of the configuration. A refused one changes nothing.' },
);

const ToolkitDescribeReq = object(
  { ...base, type: Literal('toolkit/describe/req'), toolkit_name: toolkitName, session_id: sessionId },
  { ...fromAgent, description: 'Describes one toolkit with the definitions of its tools.' },
);
const ToolkitDescribeResp = object(
  {
    ...answer,
    type: Literal('toolkit/describe/resp'),
    toolkit: ToolkitInfo,
    definitions: Type.Array(ToolDescription, { description: 'Its tools that this principal may call.' }),
  },
  { ...fromHost, description: 'The toolkit.' },
);

const ToolkitEnableReq = object(
  { ...base, type: Literal('toolkit/enable/req'), toolkit_name: toolkitName, session_id: sessionId },
  { ...fromAgent, description: 'Enables a toolkit in a session: its tools can be called.' },
);
const ToolkitEnableResp = object(
  { ...answer, type: Literal('toolkit/enable/resp'), toolkit: ToolkitInfo },
  { ...fromHost, description: 'The toolkit, enabled.' },
);

const ToolkitDisableReq = object(
  { ...base, type: Literal('toolkit/disable/req'), toolkit_name: toolkitName, session_id: sessionId },
  { ...fromAgent, description: 'Disables a toolkit in a session. Running calls of its tools continue.' },
);
const ToolkitDisableResp = object(
  { ...answer, type: Literal('toolkit/disable/resp'), toolkit: ToolkitInfo },
  { ...fromHost, description: 'The toolkit, disabled. Its configuration stays.' },
);

const ToolkitSearchReq = object(
  {
    ...base,
    type: Literal('toolkit/search/req'),
    query: text('Words that name, description or tags of a tool have.'),
    toolkit_name: mayText('Only tools of this toolkit; empty: of all that are enabled.'),
    limit: may(Type.Integer({ minimum: 1, maximum: 100, description: 'Most tools to return. Default 5.' })),
    load: may(flag('Plain lists of this session have the tools that were found from now on. Default true.')),
  },
  { ...fromAgent, description: 'Finds tools of the enabled toolkits, deferred ones too.' },
);
const ToolkitSearchResp = object(
  {
    ...answer,
    type: Literal('toolkit/search/resp'),
    tools: Type.Array(ToolDescription, { description: 'Best match first.' }),
    loaded: texts('Those that plain lists did not have before.'),
    tokens: count('The tokens that these definitions cost a model, estimated.'),
  },
  { ...fromHost, description: 'The tools that were found.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const toolkitsSchemas = {
  ToolkitListReq,
  ToolkitListResp,
  ToolkitConfigureReq,
  ToolkitConfigureResp,
  ToolkitDescribeReq,
  ToolkitDescribeResp,
  ToolkitEnableReq,
  ToolkitEnableResp,
  ToolkitDisableReq,
  ToolkitDisableResp,
  ToolkitSearchReq,
  ToolkitSearchResp,
  ToolkitInfo,
  FieldError,
  Refusal,
};

type Of<Name extends keyof typeof toolkitsSchemas> = Static<(typeof toolkitsSchemas)[Name]>;

export type ToolkitListReq = Of<'ToolkitListReq'>;
export type ToolkitListResp = Of<'ToolkitListResp'>;
export type ToolkitConfigureReq = Of<'ToolkitConfigureReq'>;
export type ToolkitConfigureResp = Of<'ToolkitConfigureResp'>;
export type ToolkitDescribeReq = Of<'ToolkitDescribeReq'>;
export type ToolkitDescribeResp = Of<'ToolkitDescribeResp'>;
export type ToolkitEnableReq = Of<'ToolkitEnableReq'>;
export type ToolkitEnableResp = Of<'ToolkitEnableResp'>;
export type ToolkitDisableReq = Of<'ToolkitDisableReq'>;
export type ToolkitDisableResp = Of<'ToolkitDisableResp'>;
export type ToolkitSearchReq = Of<'ToolkitSearchReq'>;
export type ToolkitSearchResp = Of<'ToolkitSearchResp'>;
export type ToolkitInfo = Of<'ToolkitInfo'>;
export type FieldError = Of<'FieldError'>;
