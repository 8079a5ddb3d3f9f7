/** The commands of the control edge: sessions, conversations, approvals, and the servers that speak on pipes. */
import {
  type Act,
  type Command,
  collect,
  configOption,
  jsonOption,
  Option,
  reaching,
  thinkingOption,
  whole,
} from './options.ts';

const approvalsOption = (): Option =>
  new Option(
    '--approvals <what>',
    'what happens where the policy asks (default: ask; deny where no user can answer)',
  ).choices(['ask', 'allow', 'deny']);

const ABOUT_SENDING = `
Uses the server that is running (handfast up), else one of its own for this turn. The model: --model, else that of the
session, control.model of the configuration, the one of "handfast model use", the default of a provider with a key.
Exit code: 0 the turn ended, 5 it failed, 7 it ran out of time, 130 it was interrupted.`;

const ABOUT_IDS = '\nSESSION is an id, a prefix of one, or "last".';

export function addSessions(program: Command, act: (action: Act) => Promise<void>): void {
  reaching(program.command('chat'))
    .description('talk to an agent, continuing the last session of this folder')
    .option('--new', 'start a new session')
    .option('--session <session>', 'continue this one')
    .option('--backend <name>', 'backend of a new session: model, rehearsal or a configured agent')
    .option('--model <id>', 'the model of the session: ID or PROVIDER/ID')
    .addOption(thinkingOption())
    .option('--title <title>', 'the title of a new session')
    .addOption(approvalsOption())
    .addOption(configOption())
    .addOption(jsonOption('print every event as a line; read one prompt a line'))
    .addHelpText(
      'after',
      `
Uses the server that is running (handfast up), else one of its own while the conversation lasts. Without a model
provider it uses the rehearsal backend, which follows simple directives with real tools.
What is typed while the agent works steers its turn. Esc or Ctrl-C stops the turn; Ctrl-C again, or Ctrl-D, leaves.`,
    )
    .action((flags) => act(async (terminal) => (await import('./commands/chat.ts')).chat(flags, terminal)));

  addSession(program, act);
  addApprovals(program, act);
  addPipes(program, act);
}

function addSession(program: Command, act: (action: Act) => Promise<void>): void {
  const session = program
    .command('session')
    .description('inspect and control sessions')
    .addHelpText('after', ABOUT_IDS);
  const commands = () => import('./commands/session.ts');

  reaching(session.command('ls'))
    .description('list the sessions, the latest changed first')
    .option('--all', 'closed ones too')
    .option('--cwd <folder>', 'only those of this folder')
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await commands()).sessionList(flags, terminal)));
  reaching(session.command('show <session>'))
    .description('show a session and its messages')
    .addOption(jsonOption())
    .action((id, flags) => act(async (terminal) => (await commands()).sessionShow(id, flags, terminal)));
  reaching(session.command('tail <session>'))
    .description('print its events')
    .addOption(new Option('--after <seq>', 'only events after this number').default(0).argParser(whole))
    .option('--follow', 'continue with new events, until Ctrl-C')
    .addOption(jsonOption('print one event a line'))
    .action((id, flags) => act(async (terminal) => (await commands()).sessionTail(id, flags, terminal)));
  reaching(session.command('send <session> <prompt...>'))
    .description('send a prompt and print the reply ("new": in a new session; prompt: text, @FILE or -)')
    .addOption(new Option('--image <path>', 'an image file of yours (repeatable)').argParser(collect))
    .option('--backend <name>', 'backend of a new session: model, rehearsal or a configured agent')
    .option('--model <id>', 'the model of the session: ID or PROVIDER/ID')
    .addOption(thinkingOption())
    .addOption(approvalsOption())
    .addOption(configOption())
    .option('--detach', 'return at once and print the id of the turn')
    .option('--no-enqueue', 'fail when a turn is running')
    .addOption(jsonOption('print every event of the turn as a line'))
    .addHelpText('after', ABOUT_SENDING)
    .action((id, words, flags) =>
      act(async (terminal) =>
        (await import('./commands/session-send.ts')).sessionSend(id, words.join(' '), flags, terminal),
      ),
    );
  reaching(session.command('steer <session> <text...>'))
    .description('steer the running turn')
    .option('--turn <turn>', 'only if this turn is the one that runs')
    .addOption(jsonOption())
    .action((id, words, flags) =>
      act(async (terminal) => (await commands()).sessionSteer(id, words.join(' '), flags, terminal)),
    );
  reaching(session.command('interrupt <session>'))
    .description('end the running turn')
    .addOption(jsonOption())
    .action((id, flags) => act(async (terminal) => (await commands()).sessionInterrupt(id, flags, terminal)));
  reaching(session.command('queue <session>'))
    .description('list the queued prompts')
    .option('--clear', 'drop them')
    .option('--remove <turn>', 'drop this one')
    .addOption(jsonOption())
    .action((id, flags) => act(async (terminal) => (await commands()).sessionQueue(id, flags, terminal)));
  reaching(session.command('fork <session>'))
    .description('start a session with the conversation of another')
    .option('--through <turn>', 'up to and with this turn')
    .option('--title <title>', 'its title')
    .addOption(jsonOption())
    .action((id, flags) => act(async (terminal) => (await commands()).sessionFork(id, flags, terminal)));
  reaching(session.command('export <session>'))
    .description('print a whole session as JSON lines')
    .option('--out <file>', 'write a file instead')
    .addOption(jsonOption())
    .action((id, flags) => act(async (terminal) => (await commands()).sessionExport(id, flags, terminal)));
  reaching(session.command('import <file>'))
    .description('start a session from an export (- for standard input)')
    .option('--title <title>', 'its title')
    .addOption(jsonOption())
    .action((file, flags) => act(async (terminal) => (await commands()).sessionImport(file, flags, terminal)));
  reaching(session.command('rm <session...>'))
    .description('delete sessions and their events')
    .addOption(jsonOption())
    .action((ids, flags) => act(async (terminal) => (await commands()).sessionRemove(ids, flags, terminal)));
}

function addApprovals(program: Command, act: (action: Act) => Promise<void>): void {
  const approve = program.command('approve').description('answer approvals and questions of agents');
  const commands = () => import('./commands/approve.ts');

  reaching(approve.command('ls'))
    .description('list pending approvals and questions')
    .option('--all', 'resolved ones too')
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await commands()).approveList(flags, terminal)));
  const answering = (name: string, about: string, decision: 'allow' | 'deny'): Command =>
    reaching(approve.command(`${name} <approval...>`))
      .description(about)
      .addOption(
        new Option('--remember <for>', 'for this call, this session, or this folder from now on')
          .choices(['once', 'session', 'directory'])
          .default('once'),
      )
      .option('--content <json>', 'the answer to a question: a JSON object, @FILE or -')
      .addOption(jsonOption())
      .action((ids, flags) =>
        act(async (terminal) => (await commands()).approveAnswer(ids, decision, flags, terminal)),
      );
  answering('yes', 'allow it', 'allow');
  answering('no', 'do not allow it', 'deny').option('--reason <text>', 'why: the model receives it');
}

/** Servers for the program that started them. */
function addPipes(program: Command, act: (action: Act) => Promise<void>): void {
  program
    .command('rpc')
    .description('serve session RPC to the program that started this one, on stdin and stdout')
    .option('--backend <name>', 'backend of the turns: model (default), rehearsal or a configured agent')
    .option('--server-name <name>', 'the server name in the handshake')
    .option('--cwd <folder>', 'folder of sessions that name none (default: the current one)')
    .addOption(configOption())
    .option('--verbose', 'log events to stderr, not only errors')
    .addHelpText(
      'after',
      `
JSON-RPC 2.0, one message a line; nothing else goes to stdout. Ends with exit code 0 when the input ends.`,
    )
    .action((flags) => act(async () => (await import('./commands/rpc.ts')).rpc(flags)));

  reaching(program.command('acp'))
    .description('serve sessions to the editor that started this program, by the Agent Client Protocol')
    .option('--backend <name>', 'backend of new sessions: model, rehearsal or a configured agent')
    .option('--model <id>', 'the model of new sessions: ID or PROVIDER/ID')
    .addOption(thinkingOption())
    .addOption(configOption())
    .option('--verbose', 'log events to stderr, not only errors')
    .addHelpText(
      'after',
      `
Uses the server that is running (handfast up), so that sessions outlive the editor; else one of its own while the editor
stays. Needs the package @agentclientprotocol/sdk. Ends with exit code 0 when the editor closes the pipes.

In the settings of an editor, e.g. Zed:
  "agent_servers": { "Handfast": { "command": "handfast", "args": ["acp"] } }`,
    )
    .action((flags) => act(async () => (await import('./commands/acp.ts')).acp(flags)));
}
