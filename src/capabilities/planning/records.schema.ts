/**
 * The shapes inside the planning messages: plans, tasks, claims, entries of the history.
 */
import { anyObject, orNull, shape } from '../../protocol/shapes.schema.ts';
import { type Static, type TSchema, Type } from '../../wire/schema.ts';

const { Object: object, Optional: may } = Type;
export const text = (description: string) => Type.String({ description });
export const number = (description: string) => Type.Number({ description });
export const integer = (description: string, minimum = 0) => Type.Integer({ minimum, description });
export const flag = (description: string) => Type.Boolean({ description });
export const texts = (description: string) => Type.Array(Type.String(), { description });
export const list = <T extends TSchema>(schema: T, description: string) => Type.Array(schema, { description });
export const mayText = (description: string) => may(text(description));
export const mayFlag = (description: string) => may(flag(description));

export const planId = text('The plan.');
export const taskId = text('The task.');
export const maySeq = (description: string) => may(integer(description));
export const ifRevision = may(integer('Fails with planning.conflict unless this is the revision now.', 1));
export const fence = integer('The fence of the claim.', 1);
export const key = mayText('Idempotency key: a second request with it gets the result of the first.');
export const leaseMs = may(
  integer('Duration of the lease in milliseconds; default and bounds are options of the host.', 1),
);

export const Refusal = shape('Why a request with success false was refused.', {
  code: text('planning.unknown_plan, planning.cycle, … see docs/planning.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts; row names the row of docs/errors.md.')),
});

export const Rules = shape('The rules of a plan for its columns.', {
  done: texts('The columns that end a task. Default: done, else the last column.'),
  active: text('The column a claim moves its task to; empty = it stays. Default: in_progress, else the last but one.'),
  moves: orNull(
    Type.Unsafe<Readonly<Record<string, readonly string[]>>>({
      type: 'object',
      additionalProperties: { type: 'array', items: { type: 'string' } },
      description: 'Allowed moves, from column to columns. Null: all, and statuses outside the columns too.',
    }),
  ),
  deps: Type.Unsafe<'enforced' | 'advisory'>({
    enum: ['enforced', 'advisory'],
    description: 'enforced: a task ends after its dependencies, unless forced.',
  }),
});
export const SomeRules = Type.Partial(Rules, {
  description: 'The rules of a plan for its columns; the rest by default.',
});

export const Share = shape('Another principal that may use a plan.', {
  principal: text('Its name.'),
  role: Type.Unsafe<'read' | 'write'>({ enum: ['read', 'write'], description: 'write: also changes tasks.' }),
});

const PlainPlan = {
  plan_id: text('12 hex digits.'),
  name: text('Not unique.'),
  columns: texts('The columns of its board, in order.'),
};
const MorePlan = {
  description: text('For people and models.'),
  owner: text('The principal it belongs to.'),
  agent: text('The only agent of the owner that may use it; empty: all its agents.'),
  shares: list(Share, 'Other principals that may use it.'),
  rules: Rules,
  revision: integer('Grows with every change of the plan itself.', 1),
  archived: flag('Hidden from lists, and its tasks cannot be changed.'),
  seq: maySeq('The last entry of its history. Absent in lists.'),
  tasks: may(integer('Tasks that are not archived. Absent in lists.')),
  done: may(integer('Those of them that are done. Absent in lists.')),
  created_at: number('Epoch seconds.'),
};
export const Plan = shape('A plan. A2E 1.0 has the first three.', {
  ...PlainPlan,
  ...Type.Partial(object(MorePlan)).properties,
});

export const Claim = shape('The right of one agent to work on a task, for a time.', {
  principal: text('The principal of the agent that has it.'),
  agent: text('The agent that has it.'),
  fence: integer('Grows with every claim of the task; a stale holder is refused by it.', 1),
  lease_ms: integer('Duration of the lease, milliseconds.', 1),
  expires_in_ms: integer('Milliseconds until it expires unless it is renewed.'),
  claimed_at: number('Epoch seconds.'),
});

const PlainTask = {
  task_id: text('12 hex digits.'),
  title: text('One line.'),
  status: text('Its column.'),
  assignee: text('The assignee: an agent id or any name; of a claimed task without one, the agent of the claim.'),
};
const MoreTask = {
  plan_id: planId,
  deps: texts('Tasks that must be done first.'),
  parent: text('The task it is a part of; empty: none. A parent is done after its parts.'),
  priority: Type.Integer({ description: 'Higher is handed out first; default 0.' }),
  revision: integer('Grows with every change.', 1),
  ready: flag('It could be claimed now.'),
  claim: orNull(Claim),
  archived: flag('Hidden from lists and boards.'),
};
export const TaskLine = shape('A task in a list. A2E 1.0 has the first five, on a board the first four.', {
  ...PlainTask,
  ...Type.Partial(object(MoreTask)).properties,
});

export const Task = shape('A task, whole.', {
  ...PlainTask,
  ...MoreTask,
  description: text('For people and models.'),
  metadata: anyObject('Free facts.'),
  blocked_by: texts('Dependencies and parts that are not done.'),
  created_at: number('Epoch seconds.'),
  updated_at: number('Epoch seconds.'),
  done_at: orNull(number('Epoch seconds; null: it is not done.')),
  seq: integer('Its last entry in the history of the plan.', 1),
});

export const Entry = shape('One entry of the history of a plan.', {
  seq: integer('Its place in the plan, from 1.', 1),
  plan_id: planId,
  task_id: text('Empty: it is about the plan itself.'),
  action: text(
    'created, updated, claimed, released, expired, commented, archived, restored, deleted, configured, shared.',
  ),
  at: number('Epoch seconds.'),
  principal: text('The principal that did it; empty: the host, when a lease expired.'),
  agent: text('Its agent.'),
  revision: integer('Of the task or the plan afterwards.'),
  changes: Type.Unsafe<Readonly<Record<string, readonly [unknown, unknown]>>>({
    type: 'object',
    description: 'Before and after, by field.',
  }),
  comment: mayText('The text of the comment.'),
  fence: may(fence),
  prev: integer('The entry of the same task before this one; 0: none.'),
});

export const Board = shape('The tasks of a plan by column.', {
  plan_id: planId,
  name: text('Of the plan.'),
  columns: texts('Of the plan.'),
  tasks: Type.Unsafe<Readonly<Record<string, readonly Static<typeof TaskLine>[]>>>({
    type: 'object',
    description:
      'By column: {task_id, title, status, assignee, …}, first by priority, then by age. Statuses outside the columns follow.',
  }),
  counts: may(
    Type.Unsafe<Readonly<Record<string, number>>>({ type: 'object', description: 'How many each column has.' }),
  ),
});

export type Board = Static<typeof Board>;
export type Claim = Static<typeof Claim>;
export type Entry = Static<typeof Entry>;
export type Plan = Static<typeof Plan>;
export type Refusal = Static<typeof Refusal>;
export type Rules = Static<typeof Rules>;
export type Share = Static<typeof Share>;
export type Task = Static<typeof Task>;
export type TaskLine = Static<typeof TaskLine>;
