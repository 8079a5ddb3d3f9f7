/**
 * The commands of the fleet edge: an orchestrator with its workers, a worker that joins one, tasks, routing.
 *
 * Called by `program.ts`.
 */
import { PRIORITIES, REPLY_SCHEMAS } from '../protocol/fleet.ts';
import {
  type Act,
  type Command,
  collect,
  configOption,
  connectOption,
  jsonOption,
  Option,
  port,
  positive,
  tokenFileOption,
} from './options.ts';

/** The options of every command that talks to a running fleet. */
const reaching = (command: Command): Command =>
  command.addOption(connectOption()).addOption(tokenFileOption()).addOption(jsonOption());

const ABOUT_IDS = '\nTASK is an id, the beginning of one, or "last".';

export function addFleet(program: Command, act: (action: Act) => Promise<void>): void {
  addOrchestrator(program, act);
  addWorker(program, act);
  addTasks(program, act);
  addRouting(program, act);
}

function addOrchestrator(program: Command, act: (action: Act) => Promise<void>): void {
  const fleet = program.command('fleet').description('run a fleet of workers and look at it');
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
    .option('--verbose', 'log to stderr what is worth knowing')
    .addOption(
      jsonOption('print one line when ready: {"ready":true,"fleet":…,"url":…,"listeners":[…],"workers":[…],"pid":…}'),
    )
    .addHelpText(
      'after',
      `
Examples:
  handfast fleet up fleet.yaml
  handfast task submit "add a test for the parser" --require-mcp context_mode --budget 20000 --deadline 30m --wait
  handfast fleet top`,
    )
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/fleet-up.ts')).fleetUp(file, flags, terminal)),
    );
  reaching(fleet.command('workers'))
    .description('list the workers: how they are, and what they have')
    .action((flags) => act(async (terminal) => (await commands()).fleetWorkers(flags, terminal)));
  reaching(fleet.command('top'))
    .description('a live view of workers and open tasks')
    .action((flags) => act(async (terminal) => (await commands()).fleetTop(flags, terminal)));
  reaching(fleet.command('drain <worker>'))
    .description('give a worker no more tasks')
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
        'the orchestrator: tcp://, unix:, ws://, or nats:// (default: the one of this user)',
      ),
    )
    .option('--stdio', 'speak with the orchestrator that started this program, on stdin and stdout')
    .addOption(tokenFileOption())
    .option('--id <id>', 'its name in the fleet, in place of what the file says')
    .option('--executor <kind>', 'what does the work: claude, codex, opencode, agy, rehearsal')
    .option('--repo <folder>', 'the folder it works in')
    .option('--tier <tier>', 'the tier of its model')
    .addOption(new Option('--tool <name>', 'what it can do (repeatable)').argParser(collect))
    .addOption(new Option('--pool <name>', 'a pool whose tasks it takes (repeatable)').argParser(collect))
    .addOption(new Option('--max-concurrent <n>', 'turns at once').argParser(positive))
    .option('--verbose', 'log to stderr what is worth knowing')
    .addOption(jsonOption('print one line when it has joined: {"ready":true,"worker":…,"joined":…,"pid":…}'))
    .addHelpText(
      'after',
      `
The file holds what fleet.yaml says of one worker. Without a file, --id and --executor say enough.

Examples:
  handfast worker --id trial-1 --executor rehearsal --repo .
  handfast worker claude.yaml --join nats://10.0.0.5:4222`,
    )
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/worker.ts')).worker(file, flags, terminal)),
    );
}

/** What a task is asked to be. */
function describing(command: Command): Command {
  return command
    .option('--id <id>', 'its id, for handing it in twice without harm')
    .addOption(new Option('--priority <word>', 'how soon').choices([...PRIORITIES]))
    .addOption(new Option('--reply <form>', 'what is wanted back').choices([...REPLY_SCHEMAS]))
    .option('--answer-schema <json>', 'JSON Schema of the answer: JSON, @FILE or -')
    .addOption(new Option('--budget <tokens>', 'most tokens it may use').argParser(positive))
    .option('--deadline <time>', '30m, 2h, or a date and time with an offset')
    .addOption(new Option('--require-mcp <server>', 'an MCP server that must be alive (repeatable)').argParser(collect))
    .addOption(
      new Option('--require <capability>', 'a capability the worker must have (repeatable)').argParser(collect),
    )
    .option('--min-tier <tier>', 'the least tier of the model')
    .addOption(new Option('--min-context <tokens>', 'the least context window').argParser(positive))
    .addOption(new Option('--access <kind>', 'whether it changes the repository').choices(['read', 'write']))
    .option('--worktree', 'in a git worktree of its own')
    .option('--context <id>', 'the conversation it belongs to')
    .option('--retry-safe', 'doing it twice does no harm')
    .addOption(new Option('--after <task>', 'a task that must be done first (repeatable)').argParser(collect))
    .option('--parent <task>', 'the task whose budget it takes a part of')
    .option('--pool <name>', 'only workers of this pool')
    .option('--worker <id>', 'only this worker');
}

function addTasks(program: Command, act: (action: Act) => Promise<void>): void {
  const task = program
    .command('task')
    .description('hand tasks to a fleet and see what becomes of them')
    .addHelpText('after', ABOUT_IDS);
  const commands = () => import('./commands/task.ts');

  describing(reaching(task.command('submit <brief...>')))
    .description('hand a task in and print its id (brief: text, @FILE or -)')
    .option('--wait', 'print what happens and end with it: exit code 0 when it is done, else 5')
    .action((words, flags) => act(async (terminal) => (await commands()).taskSubmit(words, flags, terminal)));
  reaching(task.command('batch <file>'))
    .description('hand in the tasks of a YAML file, all or none')
    .action((file, flags) => act(async (terminal) => (await commands()).taskBatch(file, flags, terminal)));
  reaching(task.command('ls'))
    .description('list tasks, the newest first')
    .addOption(new Option('--state <state>', 'only in this state (repeatable)').argParser(collect))
    .option('--open', 'only those that have not ended')
    .option('--parked', 'only those that wait for somebody')
    .option('--batch <name>', 'only those of a batch')
    .option('--worker <id>', 'only those of a worker')
    .addOption(new Option('--limit <n>', 'how many (default 50)').argParser(positive))
    .action((flags) => act(async (terminal) => (await commands()).taskList(flags, terminal)));
  reaching(task.command('show <task>'))
    .description('show a task: its attempts, its result, and why it went where it went')
    .action((id, flags) => act(async (terminal) => (await commands()).taskShow(id, flags, terminal)));
  reaching(task.command('watch [task]'))
    .description('follow a task until it has ended; without one, a live list of the open ones')
    .action((id, flags) => act(async (terminal) => (await commands()).taskWatch(id, flags, terminal)));
  reaching(task.command('result <task>'))
    .description('wait for a task and print its result: exit code 0 when it is done, else 5')
    .action((id, flags) => act(async (terminal) => (await commands()).taskResult(id, flags, terminal)));
  reaching(task.command('cancel <task>'))
    .description('stop a task wherever it is')
    .option('--reason <text>', 'told to its worker')
    .action((id, flags) => act(async (terminal) => (await commands()).taskCancel(id, flags, terminal)));
  reaching(task.command('retry <task>'))
    .description('try a parked or ended task again now')
    .option('--worker <id>', 'by this worker')
    .action((id, flags) => act(async (terminal) => (await commands()).taskRetry(id, flags, terminal)));
  reaching(task.command('drop <task>'))
    .description('end a parked task for good')
    .option('--reason <text>', 'kept with it')
    .action((id, flags) => act(async (terminal) => (await commands()).taskDrop(id, flags, terminal)));
  reaching(task.command('steer <task> <text...>'))
    .description('say something to a running task')
    .action((id, words, flags) =>
      act(async (terminal) => (await commands()).taskSteer(id, words.join(' '), flags, terminal)),
    );
  reaching(task.command('answer <task> <question> <decision>'))
    .description('answer a question of a running task: yes or no')
    .option('--content <json>', 'what was asked for: a JSON object, @FILE or -')
    .option('--reason <text>', 'told to the worker')
    .action((id, question, decision, flags) =>
      act(async (terminal) => (await commands()).taskAnswer(id, question, decision, flags, terminal)),
    );
}

function addRouting(program: Command, act: (action: Act) => Promise<void>): void {
  const route = program.command('route').description('see where tasks go').addHelpText('after', ABOUT_IDS);
  describing(reaching(route.command('explain <task...>')))
    .description('show scores and rejections of every worker for a task')
    .option('--brief', 'the words are a brief, not a task: where would it go?')
    .action((words, flags) =>
      act(async (terminal) => (await import('./commands/fleet.ts')).routeExplain(words, flags, terminal)),
    );
}
