/**
 * `handfast agents …`: makes subagents of a host, gives them tasks and prints their results.
 *
 * A subagent ends with the session that made it, so `run` does everything in one command; `ls` and `show` read stored
 * subagents, even of sessions that have ended.
 */
import type { CapabilityCommand } from '../../packages/capability.ts';
import { jsonArguments } from '../../packages/command-values.ts';
import { lastOrByPrefix, type Sought } from '../../packages/named-id.ts';
import { fail } from '../../wire/errors.ts';
import { type MergeOptions, MultiAgentClient, type SubagentNotice, type SubagentOutcome } from './client.ts';
import type { SubagentSummary } from './multi_agent.schema.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

const wordsOf = ({ args }: Context): string[] => args.flatMap((arg) => arg ?? []);

function numberOf({ options }: Context, name: string, flag: string): number | undefined {
  const given = options[name];
  if (given === undefined) return undefined;
  const value = Number(given);
  if (value > 0 && Number.isFinite(value)) return value;
  throw fail('usage', `--${flag} needs a number above 0, got ${JSON.stringify(given)}`);
}

async function kinds({ agent, terminal, signal }: Context): Promise<undefined> {
  const found = await new MultiAgentClient(agent).kinds({ signal });
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no kinds; name some in options.kinds of the plugin multi_agent');
  else
    terminal.table(
      ['KIND', 'BACKEND', 'ABOUT'],
      found.map(({ kind, backend, about }) => [kind, backend, about]),
    );
}

async function ls({ agent, terminal, signal, options }: Context): Promise<undefined> {
  const found = await new MultiAgentClient(agent).list({ all: options.all === true, signal });
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no subagents; "handfast agents run" makes one');
  else {
    const rows = found.map((one) => [
      one.subagent_id,
      one.name ?? '',
      one.kind ?? '',
      one.status ?? '',
      one.open === true ? 'open' : 'ended',
      one.task ?? '',
    ]);
    terminal.table(['SUBAGENT', 'NAME', 'KIND', 'STATUS', '', 'TASK'], rows);
  }
}

const SOUGHT: Sought = { noun: 'subagent', missing: 'not_found', see: 'handfast agents ls' };

/** Returns the subagent of an id, its beginning, or `last`. */
async function meant(context: Context): Promise<SubagentSummary> {
  const [wanted = ''] = wordsOf(context);
  const oldestFirst = await new MultiAgentClient(context.agent).list({ all: true, signal: context.signal });
  return lastOrByPrefix(wanted, oldestFirst.toReversed(), ({ subagent_id }) => subagent_id, SOUGHT);
}

async function show(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const subagent = await meant(context);
  const client = new MultiAgentClient(agent);
  const outcome =
    subagent.task === '' || subagent.status === 'RUNNING'
      ? null
      : outcomeForm(await client.subagent(subagent.subagent_id).result({ signal }));
  if (terminal.json) {
    terminal.document({ subagent, outcome });
    return;
  }
  terminal.line(`${subagent.subagent_id} ${subagent.name}: ${subagent.status}, ${subagent.kind} (${subagent.backend})`);
  const { control_session_id: session = '', waiting } = subagent;
  if (session !== '') terminal.line(`session ${session}${waiting === true ? ', which waits for an approval' : ''}`);
  if (outcome === null) terminal.note('no task of it has ended');
  else terminal.line(textOf(outcome));
}

async function terminate(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const { subagent_id } = await meant(context);
  const success = await new MultiAgentClient(agent).subagent(subagent_id).terminate({ signal });
  if (terminal.json) terminal.document({ subagent_id, success });
  else terminal.line(success ? 'ended' : 'had ended');
}

const STRATEGIES = ['concat', 'vote', 'first_success', 'best_by_score', 'tool'] as const;

function strategyOf({ options }: Context): MergeOptions['strategy'] {
  const given = options.merge === undefined ? 'concat' : String(options.merge);
  const known = STRATEGIES.find((one) => one === given);
  if (known === undefined)
    throw fail('usage', `--merge: expected ${STRATEGIES.join(', ')}, got ${JSON.stringify(given)}`);
  return known;
}

/** Makes subagents, gives each the task, waits for all, and ends them. */
async function run(context: Context): Promise<number> {
  const { agent, terminal, signal, options } = context;
  const [instruction = ''] = wordsOf(context);
  const count = numberOf(context, 'count', 'count') ?? 1;
  if (!Number.isInteger(count))
    throw fail('usage', `--count needs a whole number, got ${JSON.stringify(options.count)}`);
  const strategy = strategyOf(context);
  const timeoutSeconds = numberOf(context, 'timeout', 'timeout');
  const maxSteps = numberOf(context, 'maxSteps', 'max-steps');
  const metadata =
    options.metadata === undefined ? {} : jsonArguments(String(options.metadata), '{"path": "README.md"}');
  const client = new MultiAgentClient(agent);
  client.onEvent((notice) => {
    const line = lineOf(notice);
    if (line !== undefined && !terminal.json) terminal.note(line);
  });
  const made = await Promise.all(
    Array.from({ length: count }, (_, at) =>
      client.spawn(count === 1 ? 'handfast' : `handfast-${at + 1}`, {
        ...(options.kind !== undefined && { kind: String(options.kind) }),
        ...(maxSteps !== undefined && { maxSteps }),
        signal,
      }),
    ),
  );
  const outcomes = await Promise.all(
    made.map((one) =>
      one.run(instruction, { metadata, ...(timeoutSeconds !== undefined && { timeoutSeconds }), signal }),
    ),
  );
  if (count === 1) {
    const [outcome] = outcomes as [SubagentOutcome];
    const form = outcomeForm(outcome);
    if (terminal.json) terminal.document(form);
    else terminal.line(textOf(form));
    return outcome.status === 'COMPLETED' ? 0 : 1;
  }
  const tool = options.tool === undefined ? {} : { tool: String(options.tool) };
  const { result, from, failed } = await client.merge(made, { ...(strategy && { strategy }), ...tool, signal });
  if (terminal.json) terminal.document({ result, from, failed });
  else {
    terminal.line(
      result === null ? 'none of them has a result' : (summaryOf(result) ?? JSON.stringify(result, null, 2)),
    );
    if (failed.length > 0) terminal.note(`without a result: ${failed.join(', ')}`);
  }
  return result === null ? 1 : 0;
}

const outcomeForm = ({ taskId, status, result, error, code, score, usage }: SubagentOutcome) => ({
  task_id: taskId,
  status,
  result,
  error,
  code,
  ...(score !== undefined && { score }),
  ...(usage !== undefined && { usage }),
});

const summaryOf = (result: Readonly<Record<string, unknown>>): string | undefined =>
  typeof result.summary === 'string' ? result.summary : undefined;

function textOf({ result, error, code }: ReturnType<typeof outcomeForm>): string {
  if (result === null) return `${code}: ${error}`;
  return summaryOf(result) ?? JSON.stringify(result, null, 2);
}

function lineOf({ subagentId, event, content }: SubagentNotice): string | undefined {
  if (event !== 'progress') return undefined;
  const { message = '', pct } = content;
  return `${subagentId} ${pct === undefined ? '' : `${pct} % `}${message}`.trimEnd();
}

const ABOUT_IDS = 'SUBAGENT is an id, the beginning of one, or "last".';

export const commands: readonly CapabilityCommand[] = [
  { usage: 'kinds', about: 'list the kinds of subagents of the host', run: kinds },
  {
    usage: 'run <instruction>',
    about: 'make a subagent, give it a task, print what comes of it, and end it; exit code 1 when it failed',
    options: [
      ['--kind <kind>', 'the kind (default: the first)'],
      ['--count <number>', 'so many subagents with the same task (default: 1)'],
      ['--merge <strategy>', `how their results become one: ${STRATEGIES.join(', ')} (default: concat)`],
      ['--tool <name>', 'with --merge tool: the tool'],
      ['--metadata <json>', 'facts for the task: a JSON object'],
      ['--max-steps <number>', 'steps of the task (default: 20)'],
      ['--timeout <seconds>', 'ends the task after this time'],
    ],
    help: 'Ctrl-C ends the subagents.',
    run,
  },
  {
    usage: 'ls',
    about: 'list the subagents that commands made, ended ones too',
    options: [['--all', 'also those of subagents']],
    run: ls,
  },
  { usage: 'show <subagent>', about: 'print a subagent and what came of its last task', help: ABOUT_IDS, run: show },
  {
    usage: 'terminate <subagent>',
    about: 'end a subagent and all below it; its results stay',
    help: ABOUT_IDS,
    run: terminate,
  },
];
