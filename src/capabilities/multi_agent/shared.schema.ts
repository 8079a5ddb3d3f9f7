/** Shapes in both forms of the multi_agent messages. */
import { anyObject, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

export const mayText = (description: string) => may(text(description));
export const count = (description: string) => Type.Integer({ minimum: 0, description });
export const texts = (description: string) => Type.Array(Type.String(), { description });
export const seconds = (description: string) => Type.Number({ exclusiveMinimum: 0, description });
export const id = text('The subagent.');
export const STATUS = 'READY, RUNNING, COMPLETED, FAILED or TERMINATED.';
export const status = text(STATUS);
export const metadata = may(anyObject('Free facts; the host does not read them.'));
export const SubagentBudget = shape(
  'The budget of a subagent and all below it. Left out: as much as its parent has left.',
  {
    tokens: may(Type.Number({ minimum: 0, description: 'Tokens, as its backend reports them.' })),
    cost_usd: may(Type.Number({ minimum: 0, description: 'Cost, as its backend reports it.' })),
  },
);

export const SubagentUsage = shape('The resources spent.', {
  tokens: number('Tokens that were reported.'),
  cost_usd: number('Cost that was reported.'),
  steps: count('Requests that the subagent made of this host, with the steps that its backend reported.'),
  duration_ms: count('How long it took.'),
});

export const Refusal = shape('Why it was refused.', {
  code: text('See docs/multi-agent.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts; row names the row of docs/errors.md.')),
});

/** The outcome of a task, in both forms of the reply. */
export const outcome = {
  result: may(orNull(anyObject('The result of the task; null without one.'))),
  error: may(orNull(text('Why it failed; null: it did not.'))),
};
export const moreOfOutcome = {
  task_id: mayText('The task.'),
  code: mayText('The code of the error.'),
  detail: may(anyObject('Further facts of the error; row names the row of docs/errors.md.')),
  score: may(number('How good the subagent finds its result.')),
  usage: may(SubagentUsage),
  verified: may(
    oneOf(
      ['yes', 'no', 'not_checked'],
      'The outcome of checking the result: its schema, and the changes that it names.',
    ),
  ),
};

export const SubagentMessage = shape('A message of one subagent to another.', {
  type: text('Its kind, e.g. note.'),
  content: Type.Unknown({ description: 'Any JSON.' }),
});

export type SubagentBudget = Static<typeof SubagentBudget>;
export type SubagentMessage = Static<typeof SubagentMessage>;
export type SubagentUsage = Static<typeof SubagentUsage>;
