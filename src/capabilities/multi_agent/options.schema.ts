/**
 * The members of `options` of the `multi_agent` plugin in `handfast.yaml`; never imported at run time. The plugin has the
 * defaults of absent members.
 */
import { fleetKind } from '../../config/fleet-kind.schema.ts';
import {
  choice,
  group,
  integer,
  list,
  optional,
  path,
  risk,
  text,
  texts,
  toolPattern,
  variable,
} from '../../config/shared.schema.ts';
import { executor } from '../../config/worker.schema.ts';
import { Type } from '../../wire/schema.ts';

const capability = text('A capability; * = all.', 'the name of a capability', 'tools');
const tools = (about: string) =>
  group(about, {
    allow: optional(list('Only these tools.', toolPattern)),
    deny: optional(list('Never these tools.', toolPattern)),
    deny_risks: optional(list('No tool that carries one of these flags.', risk)),
    risks: optional(list('Tools with these flags too.', choice('A guarded risk.', ['exec', 'destructive', 'network']))),
  });

const session = group(
  'Sessions of this server, each task a turn: people follow and steer them and answer their approvals. {} = as sessions are made.',
  {
    backend: optional(
      text('The backend: model, rehearsal, or an agent of control.agents.', 'the name of a backend', 'model'),
    ),
    provider: optional(text('The provider of the model.', 'the name of a provider', 'anthropic')),
    model: optional(text('The model, where the request names none.', 'the id of a model')),
    thinking: optional(text('How much it thinks.', 'a level', 'LOW')),
    max_rounds: optional(integer('Most requests to the model in one task.', [1, 10_000])),
    approvals: optional(
      choice(
        'ask: people are asked at the session, and the subagent waits. deny: what would be asked is denied. allow: nothing is asked. Default ask.',
        ['ask', 'deny', 'allow'],
      ),
    ),
  },
);

const kind = group(
  { description: 'A kind of subagent.', either: ['command', 'executor', 'fleet', 'session'] },
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$',
      expected: 'a name of 1 to 64 letters, digits, "_" or "-"',
      description: 'Its name; agents spawn it by this.',
    }),
    about: optional(text('Its purpose; agents read it.', 'a sentence', 'Reads files and summarizes them')),
    command: optional(
      list(
        'A program that speaks A2E as an agent over its pipes, with its arguments. No shell is involved.',
        text('A word.', 'a program or an argument', 'node'),
      ),
    ),
    executor: optional(executor),
    fleet: optional(fleetKind),
    session: optional(session),
    cwd: optional(path('The folder it is started in. Left out: the workspace.')),
    env: texts('Its environment variables, beside PATH, HOME, LANG and the like.'),
    pass_env: list(
      { default: [], description: 'Variables of the host that it gets too: nothing else is passed on.' },
      variable('A variable.', 'ANTHROPIC_API_KEY'),
    ),
    capabilities: optional(
      list('Capabilities that it may use at most. Default: all that are delegated to it.', capability),
    ),
    tools: optional(tools('Tools that it may call at most.')),
    delegate: optional(
      group('The rights of its subagents, within those delegated to it. Default: its own rights.', {
        capabilities: list({ default: [], description: 'Capabilities.' }, capability),
        tools: optional(tools('Tools.')),
      }),
    ),
    max_seconds: optional(integer('Longest task. Default 3600.', [1, 604_800])),
    max_running: optional(
      integer('Subagents of this kind at once, of all principals. Default: no limit of its own.', [1, 10_000]),
    ),
  },
);

export const options = group('Subagents: agents that agents make, give tasks to and wait for.', {
  kinds: list(
    {
      default: [],
      description: 'The kinds there are; the first is the default. Without one, no subagent can be made.',
      example: ['kinds:', '  - name: scout', '    command: [node, ./scout.js]', '    capabilities: [tools]'].join('\n'),
    },
    kind,
  ),
  max_subagents: optional(integer('Open subagents of one principal. Default 16.', [0, 10_000])),
  max_depth: optional(integer('Subagents of subagents: 1 allows none. Default 3.', [1, 16])),
  max_ended: optional(integer('Ended subagents of one agent whose results stay. Default 100.', [1, 10_000])),
  max_result_chars: optional(integer('Characters of a result. Default 256 KiB.', [1_024, 16 * 1024 ** 2])),
});
