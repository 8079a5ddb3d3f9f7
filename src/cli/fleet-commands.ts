/** The commands of the fleet edge: an orchestrator with its workers, a worker that joins one, tasks, routing. */
import type { TaskState } from '../fleet/orchestrator/task.ts';
import { PRIORITIES, REPLY_SCHEMAS, TASK_STATES } from '../protocol/fleet.ts';
import {
  type Act,
  type Command,
  collect,
  configOption,
  connectOption,
  InvalidArgumentError,
  jsonOption,
  Option,
  port,
  positive,
  tokenFileOption,
} from './options.ts';

/** Adds the options of every command that talks to a running fleet. */
const reaching = (command: Command): Command =>
  command.addOption(fleetOption()).addOption(connectOption()).addOption(tokenFileOption()).addOption(jsonOption());

const fleetOption = (): Option => new Option('--fleet <name>', 'which fleet of this user, if several are running');

const ABOUT_IDS = '\nTASK is an id, the beginning of one, or "last".';

/** `--state`: repeatable, one state each. */
const states = (text: string, previous?: readonly TaskState[]): TaskState[] => {
  const state = TASK_STATES.find((each) => each === text);
  if (state === undefined) throw new InvalidArgumentError(`Allowed choices are ${TASK_STATES.join(', ')}.`);
  return [...(previous ?? []), state];
};

export function addFleet(program: Command, act: (action: Act) => Promise<void>): void {
  addOrchestrator(program, act);
  addWorker(program, act);
  addTasks(program, act);
  addRouting(program, act);
}

function addOrchestrator(program: Command, act: (action: Act) => Promise<void>): void {
  const fleet = program.command('fleet').description('run and inspect a fleet of workers');
  const commands = () => import('./commands/fleet.ts');

  fleet
    .command('up [file]')
    .description('run an orchestrator and the workers of a file (default: fleet.yaml here) until Ctrl-C')
    .addOption(configOption())
    .addOption(new Option('--port <n>', 'port of the HTTP address (0: any free one)').argParser(port))
    .addOption(
      new Option('--listen <address>', 'listen here instead: http://, tcp:// or unix:// (repeatable)').argParser(
        collect,
      ),
    )
    .option('--verbose', 'log events to stderr, not only errors')
    .addOption(
      jsonOption('print one line when ready: {"ready":true,"fleet":…,"url":…,"listeners":[…],"workers":[…],"pid":…}'),
    )
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/fleet-up.ts')).fleetUp(file, flags, terminal)),
    );
  fleet
    .command('check [file]')
    .description('report every problem of a fleet file by line and column (default: fleet.yaml here)')
    .addOption(jsonOption())
    .action((file) => act(async (terminal) => (await import('./commands/fleet-check.ts')).fleetCheck(file, terminal)));
  reaching(fleet.command('workers'))
    .description('list the workers with status and capabilities')
    .addHelpText(
      'after',
      `
STATUS: ready · executor_missing, auth_required (its executor cannot work: not installed, not signed in) · draining
(gets no new tasks) · unknown (its bus does not respond) · asleep (shut down in order) · gone (connection lost) ·
unreachable (never replied) · joining (has not announced itself yet) · unverified (never announces itself) · stale (its
profile expired) · circuit_open (failed too often; gets no tasks until the circuit breaker closes).`,
    )
    .action((flags) => act(async (terminal) => (await commands()).fleetWorkers(flags, terminal)));
  reaching(fleet.command('top'))
    .description('show workers and open tasks live, until Ctrl-C (into a pipe: print them once)')
    .action((flags) => act(async (terminal) => (await commands()).fleetTop(flags, terminal)));
  reaching(fleet.command('drain <worker>'))
    .description('give a worker no more tasks')
    .option('--wait', 'wait until its tasks have ended')
    .option('--undo', 'give it tasks again')
    .action((id, flags) => act(async (terminal) => (await commands()).fleetDrain(id, flags, terminal)));
}

function addWorker(program: Command, act: (action: Act) => Promise<void>): void {
  program
    .command('worker [file]')
    .description('run one worker and let it join a fleet, until Ctrl-C')
    .addOption(
      new Option(
        '--join <address>',
        'the orchestrator: http://, ws://, tcp://, unix:// or nats:// (default: the one of this user)',
      ),
    )
    .addOption(fleetOption())
    .option('--stdio', 'connect to the orchestrator that started this program, on stdin and stdout')
    .addOption(tokenFileOption())
    .option('--id <id>', 'its name in the fleet, overriding the file')
    .option('--executor <kind>', 'its executor: claude, codex, opencode, agy, rehearsal; others need a file')
    .option('--repo <folder>', 'the folder it works in')
    .option('--tier <tier>', 'the tier of its model')
    .addOption(new Option('--tool <name>', 'what it can do (repeatable)').argParser(collect))
    .addOption(new Option('--pool <name>', 'a pool whose tasks it accepts (repeatable)').argParser(collect))
    .addOption(new Option('--max-concurrent <n>', 'turns at once').argParser(positive))
    .option('--provision', 'make its consumers on the NATS servers of --join, and exit')
    .option('--verbose', 'log events to stderr, not only errors')
    .addOption(
      jsonOption('print one line when it has joined: {"ready":true,"worker":…,"peer_id":…,"joined":…,"pid":…}'),
    )
    .addHelpText(
      'after',
      `
The file describes one worker as fleet.yaml does. Without a file, --id and --executor are enough.`,
    )
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/worker.ts')).worker(file, flags, terminal)),
    );
}

/** Adds the options that describe a task. */
function describing(command: Command): Command {
  return command
    .option('--id <id>', 'its id, which makes repeated submission idempotent')
    .addOption(new Option('--priority <word>', 'how soon').choices([...PRIORITIES]))
    .addOption(new Option('--reply <form>', 'form of the reply').choices([...REPLY_SCHEMAS]))
    .option('--answer-schema <json>', 'JSON Schema of the answer: JSON, @FILE or -')
    .addOption(new Option('--budget <tokens>', 'its token budget').argParser(positive))
    .option('--deadline <time>', '30m, 2h, or a date and time with an offset')
    .addOption(
      new Option('--require-mcp <server>', 'a required MCP server, which must be healthy (repeatable)').argParser(
        collect,
      ),
    )
    .addOption(
      new Option('--require <capability>', 'a capability the worker must have (repeatable)').argParser(collect),
    )
    .option('--min-tier <tier>', 'lowest tier of the model')
    .addOption(new Option('--min-context <tokens>', 'smallest context window').argParser(positive))
    .addOption(new Option('--access <kind>', 'whether it changes the repository').choices(['read', 'write']))
    .option('--worktree', 'run it in its own git worktree')
    .addOption(
      new Option(
        '--environment-capability <capability>',
        'a capability its executor may use of the environment of the worker, instead of all (repeatable)',
      ).argParser(collect),
    )
    .addOption(
      new Option(
        '--environment-tool <tool>',
        'a tool of that environment it may call, * for any letters, instead of all (repeatable)',
      ).argParser(collect),
    )
    .option('--context <id>', 'the conversation it belongs to')
    .option('--retry-safe', 'a second run does no harm')
    .addOption(new Option('--after <task>', 'a task that must be done first (repeatable)').argParser(collect))
    .option('--parent <task>', 'the task whose budget it shares')
    .option('--pool <name>', 'only workers of this pool')
    .option('--worker <id>', 'only this worker');
}

function addTasks(program: Command, act: (action: Act) => Promise<void>): void {
  const task = program
    .command('task')
    .description('submit tasks to a fleet and follow them')
    .addHelpText('after', ABOUT_IDS);
  const commands = () => import('./commands/task.ts');

  describing(reaching(task.command('submit <brief...>')))
    .description('submit a task and print its id (brief: text, @FILE or -)')
    .option('--wait', 'print its events and its result: exit code 0 when it is done, else 5')
    .addHelpText(
      'after',
      `
With --wait, what happens goes to stderr and the result to stdout. With --json the task; with both, an event a
line and then the task.`,
    )
    .action((words, flags) => act(async (terminal) => (await commands()).taskSubmit(words, flags, terminal)));
  reaching(task.command('batch <file>'))
    .description('submit all tasks of a YAML file, or none')
    .option('--wait', 'print how each ends: exit code 0 when all are done, else 5')
    .addHelpText(
      'after',
      `
tasks:
  - { id: build, brief: "build it", budget: 20000, require_mcp: [context_mode] }
  - { id: ship, brief: "ship it", after: [build], deadline: 2h }`,
    )
    .action((file, flags) => act(async (terminal) => (await commands()).taskBatch(file, flags, terminal)));
  reaching(task.command('ls'))
    .description('list tasks, the newest first')
    .addOption(new Option('--state <state>', 'only in this state (repeatable)').argParser(states))
    .option('--open', 'only those that have not ended')
    .option('--parked', 'only those that wait for an operator')
    .option('--batch <name>', 'only those of a batch')
    .option('--worker <id>', 'only those of a worker')
    .addOption(new Option('--limit <n>', 'how many (default 50)').argParser(positive))
    .addHelpText(
      'after',
      `
States: ${TASK_STATES.join(', ')}.`,
    )
    .action((flags) => act(async (terminal) => (await commands()).taskList(flags, terminal)));
  reaching(task.command('show <task>'))
    .description('show a task: its attempts, its result, and its routing decision')
    .action((id, flags) => act(async (terminal) => (await commands()).taskShow(id, flags, terminal)));
  reaching(task.command('watch [task]'))
    .description('print the events of a task, past and live, until it has ended; without one, a live list')
    .addHelpText(
      'after',
      `
Exit code 0 when the task is done, else 5. The live list continues until Ctrl-C (into a pipe: printed once).
With --json an event a line, then the task.
${ABOUT_IDS}`,
    )
    .action((id, flags) => act(async (terminal) => (await commands()).taskWatch(id, flags, terminal)));
  reaching(task.command('result <task>'))
    .description('wait for a task and print its result: exit code 0 when it is done, else 5')
    .addHelpText('after', ABOUT_IDS)
    .action((id, flags) => act(async (terminal) => (await commands()).taskResult(id, flags, terminal)));
  reaching(task.command('cancel <task>'))
    .description('cancel a task, queued or running')
    .option('--reason <text>', 'sent to its worker')
    .action((id, flags) => act(async (terminal) => (await commands()).taskCancel(id, flags, terminal)));
  reaching(task.command('retry <task>'))
    .description('retry a parked or ended task now')
    .option('--worker <id>', 'at this worker')
    .action((id, flags) => act(async (terminal) => (await commands()).taskRetry(id, flags, terminal)));
  reaching(task.command('drop <task>'))
    .description('end a parked task for good')
    .option('--reason <text>', 'stored with the task')
    .action((id, flags) => act(async (terminal) => (await commands()).taskDrop(id, flags, terminal)));
  reaching(task.command('steer <task> <text...>'))
    .description('send text to a running task')
    .action((id, words, flags) =>
      act(async (terminal) => (await commands()).taskSteer(id, words.join(' '), flags, terminal)),
    );
  reaching(task.command('answer <task> <answer...>'))
    .description('answer a question of a running task: yes, no, a choice or a text')
    .addHelpText(
      'after',
      `
What waits is in "handfast task ls" (asks); the question, its choices and its id are in "handfast task show".
Where a task asks several, the id of one or its first characters precede the answer. Content is checked
against the schema of the question before it is sent. Answers can also be given with "handfast approve".

Examples:
  handfast task answer last yes
  handfast task answer last blue
  handfast task answer t-17 4f2a yes --content '{"branch":"main","push":false}'`,
    )
    .option('--content <json>', 'the content of the answer: a JSON object, @FILE or -')
    .option('--reason <text>', 'sent to the worker')
    .action((id, words, flags) => act(async (terminal) => (await commands()).taskAnswer(id, words, flags, terminal)));
}

function addRouting(program: Command, act: (action: Act) => Promise<void>): void {
  const route = program.command('route').description('explain routing decisions').addHelpText('after', ABOUT_IDS);
  describing(reaching(route.command('explain <task...>')))
    .description('show scores and rejections of every worker for a task')
    .option('--brief', 'explain a brief that was not submitted')
    .addHelpText('after', ABOUT_IDS)
    .action((words, flags) =>
      act(async (terminal) => (await import('./commands/fleet.ts')).routeExplain(words, flags, terminal)),
    );
}
