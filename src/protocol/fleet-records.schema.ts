/**
 * The values of the `fleet.*` methods, as schemas: the request for a task, its record, and the explanation of a
 * decision.
 *
 * `fleet/orchestrator/task.ts` and `fleet/route/profile.ts` have their types; `fleet-rpc.schema.ts` builds methods of
 * them.
 * @see docs/fleet.md#operating-a-fleet
 */
import { Type } from '../wire/schema.ts';
import { TaskQuestion, TaskResult } from './fleet.schema.ts';
import { PRIORITIES, REPLY_SCHEMAS, TASK_STATES } from './fleet-words.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from './shapes.schema.ts';

const list = Type.Array;
const object = Type.Object;
const texts = (description: string) => list(text(), { description });

/** Every member of a request but its id, as a record has it. */
const spec = {
  brief: text('The work to do, in words.'),
  priority: oneOf(PRIORITIES, 'Default `normal`.'),
  reply_schema: oneOf(REPLY_SCHEMAS, 'The required form of the executor’s reply. Default `structured`.'),
  answer_schema: orNull(anyObject('JSON Schema of `answer` in the result.')),
  token_budget: orNull(number('Tokens the task may spend.')),
  required_mcp: texts('MCP servers that must be configured and healthy.'),
  required_capabilities: texts('Tools the worker must have.'),
  min_tier: orNull(text('Lowest tier of the model.')),
  min_context_window: orNull(number('Tokens the context window must have.')),
  access: oneOf(['read', 'write'], 'Whether the repository may be changed.'),
  worktree: flag('It needs its own git worktree.'),
  environment_capabilities: orNull(
    texts('Capabilities that its executor may use of the environment of the worker. Null: all that the worker lends.'),
  ),
  environment_tools: orNull(texts('Tools of that environment it may call. Null: all that the worker lends.')),
  deadline: orNull(text('RFC 3339.')),
  context_id: orNull(text('The conversation it continues.')),
  retry_safe: flag('A second run does no harm.'),
  after: texts('Tasks that must be `done` first. One that ends otherwise ends this one as `blocked`.'),
  parent_task_id: orNull(text('The task whose budget this one takes a part of.')),
  pool: orNull(text('Only workers of this pool.')),
  worker: orNull(text('Only this worker.')),
  batch: orNull(text('Names the batch it was submitted with.')),
};

export const TaskSpec = shape('A request for a task. All but the brief may be left out.', {
  task_id: may(text('Chosen by the caller for idempotence; the same id with the same content is the same task.')),
  ...Type.Partial(object(spec)).properties,
  brief: spec.brief,
});

export const TaskState = oneOf(
  TASK_STATES,
  '`queued → reserved → sent → accepted → running → {done | partial | blocked | error | lost | canceled}`. `blocked` and `lost` go back to `queued` by policy, with the next attempt.',
);

export const Attempt = shape('One try at a task.', {
  attempt: number(),
  worker: text(),
  mode: oneOf(['structured', 'inline', 'plain'], 'How it was sent.'),
  sent_at: number('Epoch milliseconds.'),
  accepted_at: may(number('When its worker acknowledged it, or first showed that it works on it.')),
  started_at: may(number()),
  ended_at: may(number()),
  outcome: may(text('How it ended: a status, `lost`, `canceled`, `unreachable`, `busy`.')),
  reason: may(text()),
  tokens_spent: may(orNull(number())),
  tokens_claimed: may(flag('The figure is the claim of its worker or model; it was not measured.')),
  incarnation: may(orNull(text('Of the worker when it was sent.'))),
  base_commit: may(text('Commit of the repository of the worker when it was sent, where the orchestrator can see it.')),
});

export const LateResult = shape('A result that came when it no longer counted; stored and shown.', {
  received_at: number(),
  worker: text(),
  attempt: number(),
  why: oneOf(['old_attempt', 'after_deadline', 'already_ended', 'duplicate']),
  result: TaskResult,
});

export const Ranked = object({
  agent_id: text(),
  score: number(),
  components: Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    additionalProperties: { type: 'number' },
    description: 'Parts of the score; each is a whole number.',
  }),
});

const reasons = (description: string) =>
  Type.Unsafe<Readonly<Record<string, readonly string[]>>>({
    type: 'object',
    additionalProperties: { type: 'array', items: { type: 'string' } },
    description,
  });

export const Learned = shape('The effect of learning on a decision (`routing.learn`).', {
  best_by_score: text('The worker with the highest score.'),
  probabilities: Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    additionalProperties: { type: 'number' },
    description: 'Worker → probability; those within 50 points of the best.',
  }),
  outcomes: may(
    Type.Unsafe<Readonly<Record<string, { readonly attempts: number; readonly succeeded: number }>>>({
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: { attempts: { type: 'integer' }, succeeded: { type: 'integer' } },
        required: ['attempts', 'succeeded'],
      },
      description: 'Worker → its attempts that this was learned from.',
    }),
  ),
  chosen: may(text('The worker it chose. Absent: nothing was decided.')),
});

export const Explanation = shape('A decision as it is stored with its task: why it went to a worker, or to none.', {
  task_id: text(),
  decided_at: text('RFC 3339.'),
  policy_id: text(),
  chosen: orNull(text()),
  verified: flag(),
  ranking: list(Ranked, { description: 'The best 20.' }),
  rejected: reasons('At most 50 workers, with the reasons of each.'),
  rejected_more: number('How many more were rejected.'),
  profile_age_s: Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    additionalProperties: { type: 'number' },
    description: 'Worker → age of its description, seconds.',
  }),
  next_attempt_at: orNull(text()),
  learned: may(Learned),
  waits_for: may(text('A worker that is not connected and is waited for. Absent: none.')),
  sentence: text('One plain sentence.'),
});

export const TaskRecord = shape('A task, whole.', {
  task_id: text(),
  number: number('Order of submission, strictly growing.'),
  submitter: may(text('The principal that handed it in. Absent: a program, or an earlier version.')),
  spec: shape('The request with its defaults filled in and its names in canonical form.', spec),
  state: TaskState,
  parked: flag('Waits for an operator: retry, another worker, or drop.'),
  attempt: number(),
  worker: orNull(text()),
  attempts: list(Attempt),
  reroutes: number(),
  retries: number(),
  excluded: Type.Unsafe<Readonly<Record<string, string>>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description: 'Worker → incarnation and seq of the announce it refused under; it is asked again after a newer one.',
  }),
  not_before: orNull(number('Epoch milliseconds before which it is not routed.')),
  created_at: number(),
  updated_at: number(),
  ended_at: orNull(number()),
  explanation: orNull(Explanation),
  result: orNull(TaskResult),
  late_results: list(LateResult),
  tokens_spent: orNull(number('Sum over all attempts; null when one of them is unknown.')),
  granted_tokens: may(number('Tokens of its budget that were given to tasks it is the parent of.')),
  verified: orNull(oneOf(['yes', 'no', 'not_checked'])),
  verification: list(text()),
  dead_letter: orNull(text('Why it will not be tried again by itself.')),
  cancel_requested: flag(),
  questions: list(TaskQuestion, { description: 'Questions that wait for an answer.' }),
});

export const BusOutage = shape('A bus that carries nothing now.', {
  reason: text('For people.'),
  since: number('Epoch milliseconds.'),
});

export const WorkerEntry = shape('A worker as an operator sees it.', {
  peer_id: text(),
  binding: text('The bus.'),
  address: text(),
  status: text(
    '`ready`, `asleep` (shut down in order), `gone` (connection lost), `unreachable` (never responded), `joining` (has not announced itself yet), `unverified` (never announces itself), `stale` (its profile expired), `draining`, `circuit_open`, `unknown` (its bus carries nothing now), or the reason its executor cannot work: `executor_missing`, `auth_required`.',
  ),
  unknown_since: orNull(number('Since when its bus carries nothing, epoch milliseconds.')),
  mode: text('How tasks are sent.'),
  version: orNull(text()),
  warning: orNull(text()),
  claimed_agent_id: orNull(text()),
  profile: orNull(anyObject('Its profile, as routing has it.')),
  announced: orNull(anyObject('Its announce, normalised.')),
  tasks: list(text(), { description: 'Ids of the tasks it has now.' }),
  last_seen_at: number(),
});
