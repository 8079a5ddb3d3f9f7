/**
 * The messages of the fleet handshake 2.0, one schema value each. The types of `fleet.ts`, the reader
 * (`fleet/messages/reader.ts`), `schema/fleet.json` and the tables of docs/protocol/fleet.md come from here.
 *
 * A schema describes the messages that this side writes. Its notes name the members that the decoder reads more
 * tolerantly or more strictly; rules between members are in `fleet/messages/rules.ts`.
 * @see docs/protocol/fleet.md
 */
import { type TObject, type TOptional, type TSchema, Type, type Wire } from '../wire/schema.ts';
import {
  AGENT_ID,
  type Feature,
  FORBIDDEN,
  HEALTHS,
  MAX_NAMES,
  PRIORITIES,
  REPLY_SCHEMAS,
  STATUSES,
} from './fleet-words.ts';
import { NOTE, type Note } from './member.ts';
import { anyObject, flag, may, orNull as nullable, oneOf, shape } from './shapes.schema.ts';

/** The note of a message: its sender, and the feature that its receiver must list. */
export interface MessageNote extends Note {
  readonly from: 'worker' | 'orchestrator' | 'both';
  readonly feature?: Feature;
}

/** Marks a member that readers always get, with the value of its note where it is absent. */
export interface Filled {
  readonly '~filled': true;
}

const note = (value: Note) => ({ [NOTE]: value });

const text = (description: string, own: Note = {}) => Type.String({ description, ...note({ ...own }) });
/** Returns the schema of a text with visible characters; a blank one counts as absent. */
const filled = (description: string) => Type.String({ pattern: '\\S', description, ...note({ as: 'filled' }) });
/** Returns the schema of a text for a model; one that is too long is refused, never cut. */
const prompt = (description: string) => Type.String({ pattern: '\\S', description, ...note({ as: 'prompt' }) });
const id = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: `^(?!\\s)[^${FORBIDDEN}]*[^\\s${FORBIDDEN}]$`,
    description,
    ...note({ as: 'id' }),
  });
const agentId = (description: string) => Type.String({ pattern: AGENT_ID, description, ...note({ as: 'agent_id' }) });
/** Returns the schema of a name, read in canonical form. */
const name = (description: string, own: Note = {}) =>
  Type.String({
    pattern: `^[^${FORBIDDEN}]*[^\\s${FORBIDDEN}][^${FORBIDDEN}]*$`,
    description,
    ...note({ as: 'name', ...own }),
  });
const moment = (description: string) =>
  Type.String({
    pattern: '^\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?([Zz]|[+-]\\d\\d:\\d\\d)$',
    description,
    ...note({ as: 'timestamp' }),
  });
const names = (description: string) => Type.Array(name('A name.'), { maxItems: MAX_NAMES, description });
const texts = (description: string) => Type.Array(Type.String(), { description });
const maximum = Number.MAX_SAFE_INTEGER;
const count = (description: string) => Type.Integer({ minimum: 0, maximum, description });
const positive = (description: string) => Type.Integer({ minimum: 1, maximum, description });
const seconds = (description: string) => Type.Number({ minimum: 0, maximum, description });
/** Returns the schema of a word of an open list: another one is read as `other`. */
const open = <W extends string>(words: readonly W[], other: W, description: string) =>
  Type.Unsafe<W>({ type: 'string', description, ...note({ words, other }) });
/** Returns the schema of a member that may be absent or null, which mean the same. */
const orNull = <T extends TSchema>(schema: T) => may(nullable(schema));
/** Gives readers a value where an optional member is absent. */
const absentAs = <T extends TSchema>(value: unknown, schema: T): T & Filled => {
  const { [NOTE]: own } = schema as { readonly [NOTE]?: Note };
  return Object.assign(schema, note({ ...own, absent: value })) as unknown as T & Filled;
};
/** The object in the form for readers if its note has `full`. */
export type Full<S extends TObject> = {
  readonly [K in keyof S['properties']]: S['properties'][K] extends Filled
    ? NonNullable<Wire<S['properties'][K]>>
    : S['properties'][K] extends TOptional
      ? Wire<S['properties'][K]> | null
      : Wire<S['properties'][K]>;
};

export const Lease = shape('The right to run one attempt of a task.', {
  ttl_s: seconds('How long the lease holds without renewal, seconds.'),
  fence: count('A number that only grows with the attempts of a task.'),
});

export const Envelope = shape(
  'The sender, time and attempt of a message. Not part of the identity of a task: digests leave it out.',
  {
    message_id: may(id('Unique per message.')),
    context_id: orNull(id('The conversation the message belongs to.')),
    correlation_id: may(id('`task_id` of the root task.')),
    causation_id: may(id('`message_id` of the message this one follows from.')),
    sent_at: may(moment('When it was sent, for measuring clock skew.')),
    sender: may(id('The sender.')),
    attempt: may(positive('1 for the first dispatch of a task, more for each one after it.')),
    lease: may(Lease),
    token: may(
      text('On the first announce of a stream link where a token is required. Never logged, stored or forwarded.'),
    ),
  },
);

const base = {
  protocol_version: Type.String({
    pattern: '^2\\.(0|[1-9]\\d*)$',
    description: 'Version of the sender, `major.minor`.',
  }),
  envelope: may(Envelope),
};

/** Returns the note of one of the three messages of the protocol itself. */
const protocol = (from: MessageNote['from']): MessageNote => ({ from, full: true, warns: true });
/** Returns the note of an additive message, sent only to peers that list the feature. */
const additive = (feature: Feature, from: MessageNote['from']): MessageNote => ({ from, feature, warns: true });

const message = <T extends string, P extends Readonly<Record<string, TSchema>>>(
  type: T,
  description: string,
  own: MessageNote,
  members: P,
) => Type.Object({ type: Type.Literal(type), ...base, ...members }, { description, ...note(own) });

/** Returns the schema of a part of a message whose members are read into the message. */
const group = <P extends Readonly<Record<string, TSchema>>>(description: string, members: P) =>
  Type.Object(members, { description, ...note({ full: true, spread: true, warns: true }) });

const taskId = { task_id: id('The task it is about.') };

export const Worker = group('The identity of the worker.', {
  agent_id: agentId('Identifies the worker. Stands in subjects, file names and logs.'),
  model: orNull(text('Its model, where that is known.')),
  model_tier: absentAs(
    'unknown',
    orNull(
      name('`haiku` < `sonnet` < `opus`; other words are ranked by configuration. Absent: unknown.', {
        words: ['haiku', 'sonnet', 'opus', 'unknown'],
      }),
    ),
  ),
  context_window: orNull(positive('Tokens. Absent: unknown.')),
  protocol_versions: may(texts('All versions it speaks. Absent: `protocol_version` alone.')),
  features: absentAs([], may(texts('The features it understands beside the three messages; see Features.'))),
  max_concurrent: may(positive('Turns it runs at once. Absent: 3.')),
  overhead_tokens: orNull(count('Measured cost of an empty first turn, tokens.')),
  pools: absentAs([], may(names('Pools whose tasks it accepts.'))),
});

export const Capabilities = group('The capabilities that a dispatch can ask for.', {
  tools: names('The capabilities of its executor. May be empty.'),
  mcp_servers: names('MCP servers that are configured. May be empty.'),
});

export const RepoState = Type.Object(
  {
    branch: Type.Union([Type.String(), Type.Null()], { description: 'Branch, or null for none.' }),
    clean: flag('The working tree has no uncommitted changes.'),
    head: orNull(text('Commit of the working tree.', { unused: true })),
  },
  { description: 'The repository of a worker.', ...note({ full: true, warns: true }) },
);

export const Session = group('The state of the worker now.', {
  context_id: orNull(
    id(
      'The conversation the announce is about; with uncommitted changes of one conversation, unless another was asked about, that one. Absent: none, it is about the process.',
    ),
  ),
  active_tasks: may(count('Turns running or accepted.')),
  repo_state: orNull(RepoState),
  session_fresh: orNull(flag('The executor has no earlier conversation for this context.')),
  incarnation: may(id('Another value for each start of the process.')),
  seq: may(count('Rises with every announce of an incarnation.')),
  ttl_s: may(seconds('How long this description may be used, seconds.')),
  draining: absentAs(false, may(flag('It accepts no more tasks.'))),
  not_ready: may(
    name(
      'Why its executor cannot work now, the code it refuses tasks with: `executor_missing`, `auth_required`, or other words. Absent: it can, as far as is known.',
    ),
  ),
});

export const SessionAnnounce = message(
  'SESSION_ANNOUNCE',
  'The identity, capabilities and state of a worker. Replaces the announce before it as a whole.',
  protocol('worker'),
  {
    worker: Worker,
    capabilities: Capabilities,
    mcp_health: may(
      Type.Unsafe<Readonly<Record<string, string>>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: `Server → ${HEALTHS.map((word) => `\`${word}\``).join(', ')}. Only \`ok\` is healthy.`,
      }),
    ),
    session: may(Session),
  },
);

export const Task = group('The identity of a task and how it is to be run.', {
  task_id: id('Chosen by the orchestrator; the same id with the same content is the same task.'),
  priority: absentAs(
    'normal',
    orNull(open(PRIORITIES, 'normal', `${PRIORITIES.map((word) => `\`${word}\``).join(', ')}. Absent: \`normal\`.`)),
  ),
  reply_schema: absentAs(
    'structured',
    orNull(oneOf(REPLY_SCHEMAS, 'The required form of the executor’s reply. Absent: `structured`.')),
  ),
  token_budget: orNull(positive('Tokens the task may spend. Absent: no limit.')),
  answer_schema: orNull(anyObject('JSON Schema of `answer` in the result.')),
  retry_safe: absentAs(false, orNull(flag('A second run does no harm. Absent: it may.'))),
  parent_task_id: orNull(id('The task whose budget this one takes a part of.')),
});

export const Requirements = group('The conditions for the start of a task.', {
  required_mcp: absentAs([], orNull(names('MCP servers that must be configured and `ok`.'))),
  required_capabilities: absentAs([], orNull(names('Tools the worker must have.'))),
  min_tier: orNull(name('Lowest tier of the model.')),
  min_context_window: orNull(positive('Tokens the context window must have.')),
  access: orNull(
    oneOf(
      ['read', 'write'],
      'Whether the repository may be changed. Absent: `read` if tools are required and all of them only read (`browser`, `search`, `read`, `web`, `fetch`), else `write`.',
    ),
  ),
  worktree: absentAs(false, orNull(flag('It needs its own git worktree.'))),
  environment_capabilities: orNull(
    texts(
      'Capabilities that its executor may use of the environment of the worker. Absent: all that the worker lends; empty: none.',
    ),
  ),
  environment_tools: orNull(
    texts('Tools of that environment it may call; `*` stands for any letters. Absent: all that the worker lends.'),
  ),
});

export const TaskDispatch = message('TASK_DISPATCH', 'A task and what must hold for it.', protocol('orchestrator'), {
  task: Task,
  requirements: orNull(Requirements),
  deadline: orNull(moment('RFC 3339 with an offset. Absent: none.')),
  brief: prompt('The work to do, in words. At most 262,144 bytes of UTF-8; never cut.'),
});

export const Blocked = shape('Why a task did not start.', {
  code: filled('Why, for machines; see Preflight.'),
  retryable: flag('The same dispatch may be accepted later.'),
  missing: may(texts('Names that are missing or not healthy.')),
  retry_after_s: may(seconds('Seconds after which to ask again.')),
});

const SOURCES = ['measured', 'provider', 'claimed', 'unknown'] as const;

export const Usage = shape('The usage of a turn of an executor.', {
  source: absentAs(
    'unknown',
    oneOf(
      SOURCES,
      'Measured by the worker, reported by the provider, claimed by the model, or unknown.',
      note({ words: SOURCES, other: 'unknown' }),
    ),
  ),
  input: may(count('Input tokens that did not come from a cache.')),
  output: may(count('Output tokens.')),
  reasoning: may(count('Only where it is not part of `output`.')),
  cache_read: may(count('Tokens read from a cache; not counted in `tokens_spent` by default.')),
  cache_write: may(count('Tokens written to a cache.')),
  cost_usd: may(Type.Number({ minimum: 0, description: 'US dollars.' })),
  claimed: may(count('The model’s own figure, where it is more than a fifth off.')),
});

export const TaskResult = message('TASK_RESULT', 'How a task ended.', protocol('worker'), {
  ...taskId,
  status: oneOf(
    STATUSES,
    '`done`, `blocked` (needs `blocked_reason`), `error` (needs `error_summary`), `partial` (needs `next_steps`).',
  ),
  tokens_spent: orNull(count('Absent or null: unknown, never zero.')),
  next_steps: absentAs([], orNull(texts('The remaining steps.'))),
  blocked_reason: orNull(text('Why it could not continue; of a refusal `code: detail`.')),
  error_summary: orNull(text('The error, in words.', { unused: true })),
  error: may(
    Type.Unknown({
      description:
        'Accepted from other writers in place of `error_summary`: a text, or an object with a `message`. Never written.',
      ...note({ unused: true }),
    }),
  ),
  summary: orNull(text('The work done, in a few lines.')),
  artifacts: orNull(
    anyObject(
      'Products of the task: `pr` (an http or https address), `files_changed` (paths from the folder of the worker), and more.',
    ),
  ),
  blocked: orNull(Blocked),
  usage: orNull(Usage),
  answer: may(Type.Unknown({ description: 'The answer that `answer_schema` asked for.' })),
  prose: orNull(text('Text of the executor beside the result, at most 262,144 bytes of UTF-8.')),
  conformance: may(
    text('How the result was found: `strict`, `degraded` or `unstructured`. Absent: it was no text of a model.'),
  ),
});

export const TaskAck = message(
  'TASK_ACK',
  'From a worker: the dispatch is accepted, is not accepted now, or what a poll found. From an orchestrator: the result of this task and attempt is durably stored and need not be sent again.',
  additive('ack', 'both'),
  {
    ...taskId,
    accepted: flag('The dispatch was accepted; of a result: it is stored.'),
    lease: may(Lease),
    state: may(
      oneOf(['accepted', 'running', 'finished', 'unknown', 'busy'], 'Reply to a poll, or `busy`: not accepted now.'),
    ),
    retry_after_s: may(seconds('Seconds after which to ask again.')),
  },
);

export const TaskProgress = message(
  'TASK_PROGRESS',
  'A task continues. Renews its lease.',
  additive('progress', 'worker'),
  {
    ...taskId,
    seq: count('Rises with each progress of a task.'),
    phase: filled('`starting`, `running`, `repairing`, `stopping`, or a word of the executor’s.'),
    note: may(text('One line for people.')),
    percent: may(Type.Number({ minimum: 0, maximum: 100, description: 'How far it is.' })),
    tokens_so_far: orNull(count('Spent up to now.')),
  },
);

export const TaskCancel = message(
  'TASK_CANCEL',
  'Stops a task; completed by its result. Of one that ended: by the result it had.',
  additive('cancel', 'orchestrator'),
  { ...taskId, reason: may(text('For people.')) },
);

export const TaskSteer = message('TASK_STEER', 'More input for a running task.', additive('steer', 'orchestrator'), {
  ...taskId,
  steer_id: id('The same id again does nothing.'),
  text: prompt('Input for the executor. At most 262,144 bytes of UTF-8.'),
});

export const TaskPoll = message(
  'TASK_POLL',
  'Asks for the state of a task. The reply is TASK_RESULT, or TASK_ACK with its `state`.',
  additive('poll', 'orchestrator'),
  { ...taskId },
);

export const QuestionTool = shape('A call of a tool that waits for permission.', {
  name: filled('The tool.'),
  input: anyObject('The arguments of the call.'),
});

export const TaskQuestion = message(
  'TASK_QUESTION',
  'The executor asks something and waits.',
  additive('questions', 'worker'),
  {
    ...taskId,
    question_id: id('Named again by the answer.'),
    kind: oneOf(['tool', 'question'], '`tool`: may this be done? `question`: something is to be filled in.'),
    title: filled('One line for people.'),
    tool: may(QuestionTool),
    risks: may(texts('Its possible effects.')),
    schema: may(anyObject('JSON Schema of the answer’s `content`.')),
    expires_s: may(seconds('Seconds after which the worker continues as if refused.')),
  },
);

export const TaskAnswer = message('TASK_ANSWER', 'The answer to a question.', additive('questions', 'orchestrator'), {
  ...taskId,
  question_id: id('The question.'),
  allowed: flag('Continue.'),
  content: may(anyObject('The fields that were filled in.')),
  reason: may(text('For the executor.')),
});

export const SessionHeartbeat = message(
  'SESSION_HEARTBEAT',
  'Shows liveness. Describes nothing.',
  additive('heartbeat', 'both'),
  {
    agent_id: agentId('Identifies the sender.'),
    incarnation: id('Of the process that sends it.'),
    seq: count('Rises with each heartbeat of an incarnation.'),
    active_tasks: count('Turns running or accepted.'),
  },
);

export const SessionBye = message('SESSION_BYE', 'The session ends in order.', additive('heartbeat', 'both'), {
  agent_id: agentId('Identifies the sender.'),
  incarnation: may(id('Of the process that sends it.')),
  reason: filled('Why: `stopping`, `idle`, `draining`, or other words.'),
  retry_after_s: may(seconds('With `over_capacity`: when to try again.')),
});

export const SessionAccept = message(
  'SESSION_ACCEPT',
  'The announce is accepted under these terms.',
  additive('accept', 'orchestrator'),
  {
    peer_id: id('The name the worker has here; its tasks are addressed to it.'),
    features: texts('The features that the orchestrator understands beside the three messages.'),
    heartbeat_s: seconds('Seconds between heartbeats.'),
    lease_ttl_s: seconds('How long leases hold without renewal, seconds.'),
  },
);

export const AnnounceRequest = message(
  'ANNOUNCE_REQUEST',
  'Asks the worker to describe itself now.',
  additive('announce', 'orchestrator'),
  { context_id: orNull(id('The conversation it is asked about.')) },
);

/** Every message, in the order in which the documentation shows them. */
export const fleetSchemas = [
  SessionAnnounce,
  TaskDispatch,
  TaskResult,
  TaskAck,
  TaskProgress,
  TaskCancel,
  TaskSteer,
  TaskPoll,
  TaskQuestion,
  TaskAnswer,
  SessionHeartbeat,
  SessionBye,
  SessionAccept,
  AnnounceRequest,
];
