/**
 * The messages of the skill capability as schemas.
 *
 * The two pairs of A2E 1.0 and their event come first. Fields that A2E 1.0 does not have are optional, and so is the further
 * message.
 * @see docs/skill.md
 */
import { answer, base, eventFields, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const { Array: list, Literal, Object: object, Unknown: unknown } = Type;
const count = (description: string) => Type.Integer({ minimum: 0, description });
const mayText = (description: string) => may(text(description));
const texts = (description: string) => list(Type.String(), { description });

const LlmConfig = shape('A model; skills of this host call none.', {
  provider_name: text('The provider.'),
  provider_credentials: anyObject('Where its credentials are.'),
  provider_config: may(unknown({ description: 'An object or null; false is accepted.' })),
  is_default: may(orNull(flag('It is the default.'))),
});

const SkillProblem = shape('A skill that was not loaded, and the reason.', {
  path: text('Of the file or folder, below its root; whole for administrators.'),
  message: text('For people.'),
});

const SkillFile = shape('A file of a skill.', {
  path: text('Below the folder of the skill.'),
  bytes: count('Its size.'),
  sha256: text('Of its bytes, in hexadecimal.'),
});

const SkillLeftOut = shape('A file whose text is not in the reply.', {
  path: text('Below the folder of the skill.'),
  bytes: count('Its size.'),
  reason: oneOf(['size', 'binary'], 'size: the context has no room for it. binary: it is no UTF-8 text.'),
});

const SkillDefinition = shape('A skill.', {
  name: text('Its name.'),
  version: text('The version that a call runs which names none.'),
  description: text('Its effect and when to use it.'),
  triggers: texts('Words that ask for it.'),
  tools: may(orNull(list(unknown(), { description: 'Tools that it may call.' }))),
  toolkits: may(orNull(list(unknown(), { description: 'Unused here.' }))),
  status: oneOf(
    ['Created', 'Blocked', 'Published', 'Archived'],
    'Published: it can be called. Blocked: its pin does not fit.',
  ),
  input_schema: may(anyObject('JSON Schema of its arguments.')),
  output_schema: may(anyObject('JSON Schema of its result.')),
  instructions: may(orNull(text('Its text; of skill/describe/req only.'))),
  file_path: may(orNull(text('Of its SKILL.md, below its root.'))),
  llm_config: may(orNull(LlmConfig)),
  arguments: may(unknown({ description: 'Names of its arguments, or null.' })),
  when_to_use: text('When to use it.'),
  argument_hint: text('How to write its arguments.'),
  source: text('user, system or project.'),
  category: may(orNull(text('Its category.'))),
  tags: may(orNull(texts('Its tags.'))),
  max_turns: may(orNull(count('Unused here.'))),
  timeout_seconds: may(orNull(count('Longest run.'))),
  icon: may(orNull(text('Unused here.'))),
  metadata: may(
    orNull(anyObject('digest of its files, runs: whether it has an entry, versions, and its own metadata.')),
  ),
});

const SkillDiscoverReq = object(
  {
    ...base,
    type: Literal('skill/discover/req'),
    filter_tags: may(texts('Skills with any of these tags.')),
    filter_categories: may(texts('Skills of one of these categories.')),
  },
  { ...fromAgent, description: 'Lists the skills that this principal may use.' },
);

const SkillDiscoverResp = object(
  {
    ...answer,
    type: Literal('skill/discover/resp'),
    skills: may(list(SkillDefinition, { description: 'By name.' })),
    problems: may(list(SkillProblem, { description: 'Skills that were not loaded.' })),
  },
  { ...fromHost, description: 'The skills.' },
);

const SkillCallReq = object(
  {
    ...base,
    type: Literal('skill/call/req'),
    name: mayText('The skill.'),
    arguments: may(anyObject('Checked against its schema.')),
    correlation_id: mayText('Free text of the caller; journaled with the request.'),
    timeout: may(Type.Integer({ minimum: 0, description: 'Seconds; default 60. 0: the limit of the host.' })),
    streaming: may(flag('Ask for skill/event messages. Default true.')),
    llm_override: may(orNull(LlmConfig)),
    metadata: may(anyObject('Of the caller; not used.')),
    skill_version: mayText('Another version than the newest.'),
    digest: mayText('Run it only if its files have this digest.'),
  },
  { ...fromAgent, description: 'Runs a skill, or returns the instructions of one without an entry.' },
);

const SkillEvent = object(
  { ...eventFields, type: Literal('skill/event') },
  {
    ...fromHost,
    description:
      'Something that happened while a skill runs: its own events, log for what it prints, skill.started|completed|failed, tool.started|completed|failed.',
  },
);

const SkillResult = shape('The result of a skill.', {
  success: flag('False in replies of hosts that do not send an error instead.'),
  data: may(unknown({ description: 'The value it returned; of a skill without an entry SkillContext.' })),
  summary: may(unknown({ description: 'One line, or null.' })),
  truncated: may(orNull(flag('True when something was left out for its size.'))),
  error: may(orNull(text('The error when success is false.'))),
  error_code: may(orNull(text('Its code.'))),
  duration_ms: Type.Integer({ description: 'Whole milliseconds.' }),
  events: may(list(unknown(), { description: 'Unused here: events are messages.' })),
  skill_version: mayText('The version that ran.'),
  digest: mayText('Of the files that ran.'),
  tier: mayText('The sandbox that it ran in; missing for a skill without an entry.'),
  left_out: may(list(SkillLeftOut, { description: 'Files whose text is missing in data.' })),
});

const SkillContext = shape('The texts that a skill without an entry gives to a model.', {
  instructions: text('Its text.'),
  resources: list(
    shape('A file with its text.', { path: text('Below the folder of the skill.'), text: text('Its text.') }),
  ),
});

const SkillCallResp = object(
  {
    ...answer,
    type: Literal('skill/call/resp'),
    name: may(text('The skill.')),
    data: orNull(SkillResult),
    error: may(orNull(anyObject('code, message, retryable, where a host does not send an error message.'))),
    created_at: may(number('Epoch seconds.')),
  },
  { ...fromHost, description: 'The result of a skill.' },
);

const SkillDescribeReq = object(
  {
    ...base,
    type: Literal('skill/describe/req'),
    name: text('The skill.'),
    skill_version: mayText('Another version than the newest.'),
  },
  { ...fromAgent, description: 'Everything about one skill.' },
);

const SkillDescribeResp = object(
  {
    ...answer,
    type: Literal('skill/describe/resp'),
    skill: SkillDefinition,
    files: list(SkillFile, { description: 'Its manifest: the digest is that of these lines.' }),
    versions: texts('All its versions, the newest first.'),
    entry: orNull(text('The file that a call runs; null: none, a call returns its instructions.')),
    root: mayText('The folder it was found in; for administrators.'),
  },
  { ...fromHost, description: 'A skill with its instructions and files.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const skillSchemas = {
  SkillDiscoverReq,
  SkillDiscoverResp,
  SkillCallReq,
  SkillEvent,
  SkillCallResp,
  SkillDescribeReq,
  SkillDescribeResp,
  SkillDefinition,
  SkillResult,
  SkillContext,
  SkillFile,
  SkillLeftOut,
  SkillProblem,
  LlmConfig,
};

export type LlmConfig = Static<typeof LlmConfig>;
export type SkillProblem = Static<typeof SkillProblem>;
export type SkillFile = Static<typeof SkillFile>;
export type SkillLeftOut = Static<typeof SkillLeftOut>;
export type SkillDefinition = Static<typeof SkillDefinition>;
export type SkillDiscoverReq = Static<typeof SkillDiscoverReq>;
export type SkillDiscoverResp = Static<typeof SkillDiscoverResp>;
export type SkillCallReq = Static<typeof SkillCallReq>;
export type SkillEvent = Static<typeof SkillEvent>;
export type SkillResult = Static<typeof SkillResult>;
export type SkillContext = Static<typeof SkillContext>;
export type SkillCallResp = Static<typeof SkillCallResp>;
export type SkillDescribeReq = Static<typeof SkillDescribeReq>;
export type SkillDescribeResp = Static<typeof SkillDescribeResp>;
