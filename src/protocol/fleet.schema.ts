/**
 * The messages of the fleet handshake 2.0 as schemas, as this side writes them. `schema/fleet.json` and the tables of
 * docs/protocol/fleet.md come from here; a test holds them equal to the types of `fleet.ts`.
 *
 * Readers go by `fleet/messages/decode.ts`, which also finds what a schema cannot say, and is kinder to words it does not
 * know.
 * @see docs/protocol/fleet.md
 */
import { type TSchema, Type } from '../wire/schema.ts';
import { HEALTHS, PRIORITIES, REPLY_SCHEMAS, STATUSES } from './fleet.ts';

/** Controls, zero-width and bidirectional characters, line separators. */
const FORBIDDEN = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff';

const text = (description: string) => Type.String({ description });
const filled = (description: string) => Type.String({ pattern: '\\S', description });
const id = (description: string) =>
  Type.String({ minLength: 1, maxLength: 256, pattern: `^(?!\\s)[^${FORBIDDEN}]*[^\\s${FORBIDDEN}]$`, description });
const name = (description: string) =>
  Type.String({ pattern: `^[^${FORBIDDEN}]*[^\\s${FORBIDDEN}][^${FORBIDDEN}]*$`, description });
const moment = (description: string) =>
  Type.String({
    pattern: '^\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?([Zz]|[+-]\\d\\d:\\d\\d)$',
    description,
  });
const names = (description: string) => Type.Array(name('A name.'), { maxItems: 256, description });
const texts = (description: string) => Type.Array(Type.String(), { description });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const positive = (description: string) => Type.Integer({ minimum: 1, description });
const seconds = (description: string) => Type.Number({ minimum: 0, description });
const flag = (description: string) => Type.Boolean({ description });
const anyObject = (description: string) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', description });
const may = <T extends TSchema>(schema: T) => Type.Optional(schema);
/** May be left out, or null, which says the same. */
const orNull = <T extends TSchema>(schema: T) => {
  const { description, ...rest } = schema as T & { readonly description?: string };
  return Type.Optional(Type.Union([rest as unknown as T, Type.Null()], { description }));
};

export const Lease = Type.Object(
  {
    ttl_s: seconds('How long the lease holds without renewal, seconds.'),
    fence: count('A number that only grows with the attempts of a task.'),
  },
  { description: 'The right to run one attempt of a task.' },
);

export const Envelope = Type.Object(
  {
    message_id: may(id('Unique per message.')),
    context_id: orNull(id('The conversation the message belongs to.')),
    correlation_id: may(id('`task_id` of the root task.')),
    causation_id: may(id('`message_id` of the message this one follows from.')),
    sent_at: may(moment('When it was sent, for measuring the skew of clocks.')),
    sender: may(id('Who sent it.')),
    attempt: may(positive('1 for the first dispatch of a task, more for each one after it.')),
    lease: may(Lease),
    token: may(
      text('On the first announce of a stream link where a token is required. Never logged, kept or sent on.'),
    ),
  },
  { description: 'Who sent a message, when, and for which attempt. Never part of what a task is.' },
);

const base = {
  protocol_version: Type.String({
    pattern: '^2\\.(0|[1-9]\\d*)$',
    description: 'Version of the sender, `major.minor`.',
  }),
  envelope: may(Envelope),
};

const taskId = { task_id: id('The task it is about.') };

export const Worker = Type.Object(
  {
    agent_id: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$',
      description: 'Who the worker is. Stands in subjects, file names and logs.',
    }),
    model: orNull(text('Its model, where that is known.')),
    model_tier: orNull(name('`haiku` < `sonnet` < `opus`; other words are ranked by configuration. Absent: unknown.')),
    context_window: orNull(positive('Tokens. Absent: unknown.')),
    protocol_versions: may(texts('All versions it speaks. Absent: `protocol_version` alone.')),
    features: may(texts('What it understands beside the three messages; see Features.')),
    max_concurrent: may(positive('Turns it runs at once. Absent: 3.')),
    overhead_tokens: orNull(count('What an empty first turn was measured to cost, tokens.')),
    pools: may(names('Pools whose tasks it takes.')),
  },
  { description: 'Who the worker is.' },
);

export const Capabilities = Type.Object(
  {
    tools: names('What its executor can do. May be empty.'),
    mcp_servers: names('MCP servers that are configured. May be empty.'),
  },
  { description: 'What a dispatch can ask for.' },
);

export const RepoState = Type.Object(
  {
    branch: Type.Union([Type.String(), Type.Null()], { description: 'Branch, or null for none.' }),
    clean: flag('Nothing in the tree that is not committed.'),
    head: orNull(text('Commit the tree stands at.')),
  },
  { description: 'The repository of a worker.' },
);

export const Session = Type.Object(
  {
    context_id: orNull(id('The conversation the announce is about. Absent: none, it is about the process.')),
    active_tasks: may(count('Turns running or accepted.')),
    repo_state: orNull(RepoState),
    session_fresh: orNull(flag('The executor has no earlier conversation for this context.')),
    incarnation: may(id('Another value for each start of the process.')),
    seq: may(count('Rises with every announce of an incarnation.')),
    ttl_s: may(seconds('How long this description may be used, seconds.')),
    draining: may(flag('It takes no more tasks.')),
    not_ready: may(
      name('Why its executor cannot work now: `executor_missing`, `auth_required`, or other words. Absent: it can.'),
    ),
  },
  { description: 'How the worker is now.' },
);

export const SessionAnnounce = Type.Object(
  {
    type: Type.Literal('SESSION_ANNOUNCE'),
    ...base,
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
  { description: 'Who a worker is, what it can do, and how it is. Replaces the announce before it as a whole.' },
);

export const Task = Type.Object(
  {
    task_id: id('Chosen by the orchestrator; the same id with the same content is the same task.'),
    priority: orNull(text(`${PRIORITIES.map((word) => `\`${word}\``).join(', ')}. Absent: \`normal\`.`)),
    reply_schema: orNull(
      Type.Enum([...REPLY_SCHEMAS], {
        description: 'What the reply of the executor must look like. Absent: `structured`.',
      }),
    ),
    token_budget: orNull(positive('Tokens the task may spend. Absent: no limit.')),
    answer_schema: orNull(anyObject('JSON Schema of `answer` in the result.')),
    retry_safe: orNull(flag('A second run does no harm. Absent: it may.')),
    parent_task_id: orNull(id('The task whose budget this one takes a part of.')),
  },
  { description: 'What a task is called and how it is to be run.' },
);

export const Requirements = Type.Object(
  {
    required_mcp: orNull(names('MCP servers that must be configured and `ok`.')),
    required_capabilities: orNull(names('Tools the worker must have.')),
    min_tier: orNull(name('Lowest tier of the model.')),
    min_context_window: orNull(positive('Tokens the context window must have.')),
    access: orNull(
      Type.Enum(['read', 'write'], {
        description:
          'Whether the repository may be changed. Absent: `read` if tools are required and all of them only read (`browser`, `search`, `read`, `web`, `fetch`), else `write`.',
      }),
    ),
    worktree: orNull(flag('It wants a git worktree of its own.')),
  },
  { description: 'What must hold for a task to be started.' },
);

export const TaskDispatch = Type.Object(
  {
    type: Type.Literal('TASK_DISPATCH'),
    ...base,
    task: Task,
    requirements: orNull(Requirements),
    deadline: orNull(moment('RFC 3339 with an offset. Absent: none.')),
    brief: filled('What is to be done, in words. At most 262,144 bytes of UTF-8; never cut.'),
  },
  { description: 'A task and what must hold for it.' },
);

export const Blocked = Type.Object(
  {
    code: filled('Why, for machines; see Preflight.'),
    retryable: flag('The same dispatch may be taken later.'),
    missing: may(texts('Names that are missing or not healthy.')),
    retry_after_s: may(seconds('Seconds after which to ask again.')),
  },
  { description: 'Why a task did not start.' },
);

export const Usage = Type.Object(
  {
    source: Type.Enum(['measured', 'provider', 'claimed', 'unknown'], {
      description: 'Measured by the worker, told by the provider, claimed by the model, or unknown.',
    }),
    input: may(count('Tokens no cache gave.')),
    output: may(count('Tokens written.')),
    reasoning: may(count('Only where it is not part of `output`.')),
    cache_read: may(count('Tokens read from a cache; not counted in `tokens_spent` by default.')),
    cache_write: may(count('Tokens written to a cache.')),
    cost_usd: may(Type.Number({ minimum: 0, description: 'US dollars.' })),
    claimed: may(count('What the model said of itself, where that is more than a fifth off.')),
  },
  { description: 'What was used.' },
);

export const TaskResult = Type.Object(
  {
    type: Type.Literal('TASK_RESULT'),
    ...base,
    ...taskId,
    status: Type.Enum([...STATUSES], {
      description:
        '`done`, `blocked` (needs `blocked_reason`), `error` (needs `error_summary`), `partial` (needs `next_steps`).',
    }),
    tokens_spent: orNull(count('Absent or null: unknown, never zero.')),
    next_steps: orNull(texts('What remains.')),
    blocked_reason: orNull(text('Why it could not go on; of a refusal `code: detail`.')),
    error_summary: orNull(text('What went wrong.')),
    summary: orNull(text('What was done, in a few lines.')),
    artifacts: orNull(
      anyObject(
        'What it made: `pr` (an http or https address), `files_changed` (paths below the repository), and more.',
      ),
    ),
    blocked: orNull(Blocked),
    usage: orNull(Usage),
    answer: may(Type.Unknown({ description: 'What `answer_schema` asked for.' })),
    prose: orNull(text('What the executor said beside the result, at most 262,144 bytes of UTF-8.')),
    conformance: may(
      text('How the result was found: `strict`, `degraded` or `unstructured`. Absent: it was no text of a model.'),
    ),
  },
  { description: 'How a task ended.' },
);

export const TaskAck = Type.Object(
  {
    type: Type.Literal('TASK_ACK'),
    ...base,
    ...taskId,
    accepted: flag('The dispatch was taken; of a result: it is kept.'),
    lease: may(Lease),
    state: may(
      Type.Enum(['accepted', 'running', 'finished', 'unknown', 'busy'], {
        description: 'Answer to a poll, or `busy`: not taken now.',
      }),
    ),
    retry_after_s: may(seconds('Seconds after which to ask again.')),
  },
  {
    description:
      'From a worker: the dispatch is taken, is not taken now, or what a poll found. From an orchestrator: the result of this task and attempt is kept for good and need not be sent again.',
  },
);

export const TaskProgress = Type.Object(
  {
    type: Type.Literal('TASK_PROGRESS'),
    ...base,
    ...taskId,
    seq: count('Rises with each progress of a task.'),
    phase: filled('`starting`, `running`, `repairing`, `stopping`, or a word of the executor’s.'),
    note: may(text('One line for people.')),
    percent: may(Type.Number({ minimum: 0, maximum: 100, description: 'How far it is.' })),
    tokens_so_far: orNull(count('Spent up to now.')),
  },
  { description: 'A task goes on. Renews its lease.' },
);

export const TaskCancel = Type.Object(
  { type: Type.Literal('TASK_CANCEL'), ...base, ...taskId, reason: may(text('For people.')) },
  { description: 'Stops a task; answered by its result. Of one that ended: by the result it had.' },
);

export const TaskSteer = Type.Object(
  {
    type: Type.Literal('TASK_STEER'),
    ...base,
    ...taskId,
    steer_id: id('The same id again does nothing.'),
    text: filled('What to tell the executor. At most 262,144 bytes of UTF-8.'),
  },
  { description: 'More input for a running task.' },
);

export const TaskPoll = Type.Object(
  { type: Type.Literal('TASK_POLL'), ...base, ...taskId },
  { description: 'How is this task? Answered with TASK_RESULT, or with TASK_ACK and its `state`.' },
);

export const QuestionTool = Type.Object(
  { name: filled('The tool.'), input: anyObject('What it is to be called with.') },
  { description: 'A call of a tool that waits for leave.' },
);

export const TaskQuestion = Type.Object(
  {
    type: Type.Literal('TASK_QUESTION'),
    ...base,
    ...taskId,
    question_id: id('Named again by the answer.'),
    kind: Type.Enum(['tool', 'question'], {
      description: '`tool`: may this be done? `question`: something is to be filled in.',
    }),
    title: filled('One line for people.'),
    tool: may(QuestionTool),
    risks: may(texts('What may come of it.')),
    schema: may(anyObject('JSON Schema of the answer’s `content`.')),
    expires_s: may(seconds('Seconds after which the worker goes on as if refused.')),
  },
  { description: 'The executor asks something and waits.' },
);

export const TaskAnswer = Type.Object(
  {
    type: Type.Literal('TASK_ANSWER'),
    ...base,
    ...taskId,
    question_id: id('The question.'),
    allowed: flag('Go on.'),
    content: may(anyObject('What was filled in.')),
    reason: may(text('For the executor.')),
  },
  { description: 'The answer to a question.' },
);

const agent = {
  agent_id: Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$', description: 'Who it is.' }),
};

export const SessionHeartbeat = Type.Object(
  {
    type: Type.Literal('SESSION_HEARTBEAT'),
    ...base,
    ...agent,
    incarnation: id('Of the process that sends it.'),
    seq: count('Rises with each heartbeat of an incarnation.'),
    active_tasks: count('Turns running or accepted.'),
  },
  { description: 'Still there. Describes nothing.' },
);

export const SessionBye = Type.Object(
  {
    type: Type.Literal('SESSION_BYE'),
    ...base,
    ...agent,
    incarnation: may(id('Of the process that sends it.')),
    reason: filled('Why: `stopping`, `idle`, `draining`, or other words.'),
  },
  { description: 'The session ends in good order.' },
);

export const SessionAccept = Type.Object(
  {
    type: Type.Literal('SESSION_ACCEPT'),
    ...base,
    peer_id: id('The name the worker has here; its tasks are addressed to it.'),
    features: texts('What the orchestrator understands beside the three messages.'),
    heartbeat_s: seconds('Seconds between heartbeats.'),
    lease_ttl_s: seconds('How long leases hold without renewal, seconds.'),
  },
  { description: 'The announce is accepted under these terms.' },
);

export const AnnounceRequest = Type.Object(
  { type: Type.Literal('ANNOUNCE_REQUEST'), ...base, context_id: orNull(id('The conversation it is asked about.')) },
  { description: 'Describe yourself now.' },
);
