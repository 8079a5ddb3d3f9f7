/**
 * The command line: every command, its options and its help (those of sessions: `session-commands.ts`). The code of a command
 * is in `commands/`, loaded when it is called.
 */
import { styleText } from 'node:util';
import { isOutOfSpace } from '../base/disk-space.ts';
import { fail } from '../wire/errors.ts';
import { addBuiltinCommands, addPackageCommands } from './capability-commands.ts';
import { candidateLines, candidatesFor, completionScript, SHELLS, type Shell } from './completion.ts';
import { addConformance } from './conformance-commands.ts';
import { addExamples, commandsBelow, wordsOf } from './examples.ts';
import { reportFailure } from './failure.ts';
import { addFleet } from './fleet-commands.ts';
import { leaveUnread, outputIsUnread } from './interrupt.ts';
import { leaveSoon } from './leave.ts';
import { addMcp } from './mcp-commands.ts';
import { addModels } from './model-commands.ts';
import {
  type Act,
  Argument,
  Command,
  CommanderError,
  collect,
  configOption,
  connecting,
  connectOption,
  jsonOption,
  Option,
  positive,
  serving,
  timeoutOption,
  tokenFileOption,
  upTo,
  whole,
} from './options.ts';
import { Terminal } from './output/terminal.ts';
import { widthOf, wrapped } from './output/text-width.ts';
import { packageVersion } from './package-info.ts';
import { addRecording } from './record-commands.ts';
import { addSessions } from './session-commands.ts';

const EXIT_CODES = `
Exit codes: 0 done, 1 what it ran or checked failed or differs, 2 wrong usage or configuration, 3 not allowed,
4 unreachable, 5 failed at the other side, 6 refused in the handshake, 7 out of time, 130 interrupted.`;

/** Runs a command line; resolves with the exit code when everything has been written. Never rejects. */
export async function run(words: readonly string[]): Promise<number> {
  const json = words.includes('--json');
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that has seen enough (`| head`) ends the command quietly, be it a result or help.
    if (error.code === 'EPIPE') return leaveUnread();
    const code = isOutOfSpace(error) ? 'disk_full' : 'runtime_error';
    process.exit(reportFailure(fail(code, `the output could not be written: ${error.message}`), json));
  });
  let exit = 0;
  /** The command whose words were wrong. */
  let asked = '';
  const act = performer((code) => {
    exit = code;
  }, json);
  try {
    const program = await commandLine(act, words);
    await addPackageCommands(program, words, act);
    for (const command of commandsBelow(program)) {
      command.exitOverride((error) => {
        asked = wordsOf(command);
        throw error;
      });
    }
    await program.parseAsync([...words], { from: 'user' });
    return outputIsUnread() ? 0 : exit;
  } catch (error) {
    if (outputIsUnread()) return 0;
    if (!(error instanceof CommanderError)) return reportFailure(error, json);
    if (error.exitCode === 0) return 0;
    // Help that was printed for a missing command needs no error text as well.
    if (error.code === 'commander.help') return 2;
    const problem = error.message
      .replace(/^error: /, '')
      .replace(/\.$/, '')
      .replace(/\s+/g, ' ');
    return reportFailure(
      fail('usage', `${problem}; see: ${['handfast', asked, '--help'].filter(Boolean).join(' ')}`),
      json,
    );
  }
}

/** Runs the action of a command, with a terminal. */
function performer(setExit: (code: number) => void, json: boolean): (action: Act) => Promise<void> {
  return async (action) => {
    const terminal = new Terminal(json);
    try {
      const result = await action(terminal);
      if (typeof result === 'number') setExit(result);
    } finally {
      await terminal.end();
    }
  };
}

/** Returns a part of a help at this width: its paragraphs are filled again; lists and command lines stay as they are. */
function helpAt(help: string, width: number): string {
  const filled = (paragraph: string) =>
    /^ /m.test(paragraph) || paragraph.split('\n').every((line) => widthOf(line) <= width)
      ? paragraph
      : wrapped(paragraph.replaceAll('\n', ' '), width).join('\n');
  return help
    .split(/(\n{2,}|^\n|\n$)/)
    .map(filled)
    .join('');
}

/** Makes all commands, or those that the words of a command line may ask for. `act` runs the action of a command. */
export async function commandLine(act: (action: Act) => Promise<void>, words?: readonly string[]): Promise<Command> {
  const program = new Command('handfast')
    .description('Sessions for agents: negotiated, journaled, resumable.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print help for a command')
    .addOption(connectOption())
    .addOption(tokenFileOption())
    .addOption(jsonOption())
    .hook('preAction', (anywhere, command) => passOn(anywhere, command))
    .exitOverride()
    .configureOutput({
      outputError: () => {},
      writeOut: (help) => process.stdout.write(helpAt(help, process.stdout.columns || Number.POSITIVE_INFINITY)),
    })
    .configureHelp({
      sortSubcommands: false,
      // Also beside a wide column of commands, and in a narrow terminal.
      minWidthToWrap: 16,
      styleTitle: (title) => styleText('bold', title, { validateStream: false }),
    })
    .addHelpText(
      'after',
      `
--connect, --token-file and --json work before the command and after it.
${EXIT_CODES}`,
    );
  addServing(program, act);
  addCalling(program, act);
  addSessions(program, act);
  addModels(program, act);
  addMcp(program, act);
  addFleet(program, act);
  addInspecting(program, act);
  addRecording(program, act);
  addConformance(program, act);
  addPreparing(program, act);
  addCompletion(program, act);
  await addBuiltinCommands(program, words, act);
  addExamples(program);
  return program;
}

/**
 * Passes options given before a command to that command, as if they followed it. An option that the command does not
 * have is refused in both positions.
 */
function passOn(anywhere: Command, command: Command): void {
  for (const [name, value] of Object.entries(anywhere.opts())) {
    const option = anywhere.options.find((each) => each.attributeName() === name);
    if (!command.options.some((each) => each.long === option?.long)) {
      throw fail('usage', `unknown option '${option?.long}' for ${command.name()}`);
    }
    command.setOptionValueWithSource(name, value, 'cli');
  }
}

/** Commands that are a host. */
function addServing(program: Command, act: (action: Act) => Promise<void>): void {
  serving(program.command('up'))
    .description('run a host until Ctrl-C')
    .addHelpText(
      'after',
      `
Without a configuration file: the built-in tools, confined to the current folder, on http://127.0.0.1:4700.
HTTP serves POST /session, /send, GET /stream, /health, /readyz, WebSocket at /ws, and MCP at /mcp.`,
    )
    .action((flags) => act(async (terminal) => (await import('./commands/up.ts')).up(flags, terminal)));

  program
    .command('stdio')
    .description('run a host on stdin and stdout, for the program that started this one')
    .addOption(configOption())
    .option('--verbose', 'log handshakes and the like to stderr')
    .addHelpText(
      'after',
      `
Nothing but the protocol goes to stdout: one JSON message a line. What plugins print goes to stderr.
Ends with exit code 0 when the input ends and everything is answered. A token is needed only when the
configuration lists some.`,
    )
    .action(() => {
      throw fail('runtime_error', 'stdio is served before options are read; see the entry of the command');
    });
}

/** Commands that call a host. */
function addCalling(program: Command, act: (action: Act) => Promise<void>): void {
  connecting(program.command('ping'))
    .description('check that a host responds')
    .addOption(new Option('--count <n>', 'pings, one after the other').default(1).argParser(positive))
    .addOption(jsonOption('print one JSON document a ping'))
    .action((flags) => act(async (terminal) => (await import('./commands/ping.ts')).ping(flags, terminal)));

  connecting(program.command('caps'))
    .description('show what a host grants, and why it refuses the rest')
    .option('--as <name>', 'what this principal of the configuration would be granted')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await import('./commands/caps.ts')).caps(flags, terminal)));

  program
    .command('demo')
    .description('show on this machine what the protocols do: handshake, resume, approval, kill, routing')
    .addOption(jsonOption('print one JSON document a line'))
    .action(() => act(async (terminal) => (await import('./demo/demo.ts')).demo(terminal)));

  const tools = program.command('tools').description('list, search and call the tools of a host');
  const listing = (command: Command): Command =>
    connecting(command)
      .option('--kind <kind>', 'only tools of this kind, e.g. file')
      .addOption(new Option('--tag <tag>', 'only tools with this tag (repeatable)').argParser(collect))
      .addOption(jsonOption('print the descriptions as JSON, schemas included'));
  listing(tools.command('ls'))
    .description('list the tools')
    .option('--all', 'also tools that plain lists leave out')
    .action((flags) => act(async (terminal) => (await import('./commands/tools-list.ts')).toolsList(flags, terminal)));
  listing(tools.command('search <query>'))
    .description('find tools by name, tag and description, the best match first')
    .action((query, flags) =>
      act(async (terminal) => (await import('./commands/tools-list.ts')).toolsSearch(query, flags, terminal)),
    );
  connecting(tools.command('call <name> [arguments...]'))
    .description('call a tool')
    .addOption(timeoutOption())
    .option('--stream', 'show events also without a terminal; with --json one a line, then {"result":…}')
    .addOption(jsonOption('print the whole result as JSON'))
    .addHelpText(
      'after',
      `
Arguments are one JSON object, @FILE, - (standard input), or key=value words: those are typed by the
schema of the tool, and the key of a list may be repeated.
The result goes to stdout; progress, notes and the stderr of programs go to stderr. Ctrl-C stops the tool.`,
    )
    .action((name, words, flags) =>
      act(async (terminal) => (await import('./commands/tools-call.ts')).toolsCall(name, words, flags, terminal)),
    );

  connecting(program.command('call <type> [body]'))
    .description('send a message of any type and print its reply')
    .addOption(timeoutOption())
    .option('--stream', 'ask for events and show them; with --json one a line, then {"result":…}')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The body is a JSON object, @FILE or -; without one it is {}. Envelope fields are added.`,
    )
    .action((type, body, flags) =>
      act(async (terminal) => (await import('./commands/call.ts')).call(type, body ?? '{}', flags, terminal)),
    );
}

/** Adds the commands that look at past events. */
function addInspecting(program: Command, act: (action: Act) => Promise<void>): void {
  connecting(program.command('tail [session]'))
    .description('read the journal of a session; without one, list the sessions')
    .addOption(new Option('--after <cursor>', 'only entries after this cursor').default(0).argParser(whole))
    .option('--follow', 'continue with new entries, until Ctrl-C')
    .addOption(jsonOption('print one entry a line'))
    .addHelpText(
      'after',
      `
The token of this user's own host reads every session; others read their own.`,
    )
    .action((session, flags) =>
      act(async (terminal) => (await import('./commands/tail.ts')).tail(session, flags, terminal)),
    );

  const audit = program.command('audit').description('the record of every principal and its requests');
  audit
    .command('ls [file]')
    .description('list the newest lines of the audit, the newest last (of the configuration, a file, or a folder)')
    .addOption(configOption())
    .option('--since <time>', 'only since then: 30m, 2h, 1d ago, or an RFC 3339 date')
    .option('--principal <name>', 'only requests of this principal')
    .option('--capability <name>', 'only requests of this capability')
    .addOption(
      new Option('--outcome <outcome>', 'only requests that ended so').choices(['ok', 'error', 'cancelled', 'refused']),
    )
    .option('--code <code>', 'only requests that failed with this error code')
    .addOption(new Option('--limit <n>', 'most lines, up to 10000').default(50).argParser(upTo(10_000)))
    .addOption(new Option('--before <n>', 'only lines before this number: the next page').argParser(positive))
    .option('--follow', 'continue with new lines, until Ctrl-C')
    .addOption(jsonOption('print one line of the audit a line'))
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/audit-ls.ts')).auditLs(file, flags, terminal)),
    );
  audit
    .command('verify [file]')
    .description('check that no line was changed, removed or added (a file, or a folder of them)')
    .addOption(configOption())
    .option('--head <hash>', 'a hash noted earlier that must still exist: detects a truncated end')
    .addOption(jsonOption())
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/audit-verify.ts')).auditVerify(file, flags, terminal)),
    );

  program
    .command('doctor')
    .description('check the dependencies of a host, and advise how to fix faults')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await import('./commands/doctor.ts')).doctor(flags, terminal)));
}

/** Commands that prepare a host. */
function addPreparing(program: Command, act: (action: Act) => Promise<void>): void {
  program
    .command('init [folder]')
    .description('write a commented handfast.yaml and a first plugin')
    .option('--force', 'replace existing files')
    .addOption(jsonOption())
    .action((folder, flags) =>
      act(async (terminal) => (await import('./commands/init.ts')).init(folder ?? '.', flags, terminal)),
    );

  addTrust(program, act);

  const config = program.command('config').description('the configuration of a host');
  config
    .command('check [file]')
    .description('report every problem of a configuration by line and column, and who may do what')
    .option('--as <name>', 'only what this principal may do')
    .addOption(jsonOption())
    .action((file, flags) =>
      act(async (terminal) => (await import('./commands/config-check.ts')).configCheck(file, flags, terminal)),
    );
  connecting(config.command('reload'))
    .addOption(jsonOption())
    .description('make a running host read its tokens, roles and grants again; open sessions get the rights of now')
    .action((flags) =>
      act(async (terminal) => (await import('./commands/config-reload.ts')).configReload(flags, terminal)),
    );

  const schema = program.command('schema').description('JSON Schemas of the messages and of the configuration');
  schema
    .command('export [name]')
    .description('print a schema, or write it (without a name: all) to a folder; neither: list them')
    .option('--out <folder>', 'write files instead')
    .addOption(jsonOption())
    .action((name, flags) =>
      act(async (terminal) => (await import('./commands/schema-export.ts')).schemaExport(name, flags, terminal)),
    );
}

/** Adds the commands for completion in shells. */
function addCompletion(program: Command, act: (action: Act) => Promise<void>): void {
  program
    .command('completion')
    .description('print the completion script of a shell')
    .addArgument(new Argument('<shell>', 'where it is sourced').choices(SHELLS))
    .addHelpText(
      'after',
      `
bash  in ~/.bashrc:                  source <(handfast completion bash)
zsh   in ~/.zshrc, behind compinit:  source <(handfast completion zsh)
fish  in ~/.config/fish/config.fish: handfast completion fish | source`,
    )
    .action((shell: Shell) => act(async (terminal) => terminal.exact(completionScript(shell))));
  program
    .command('complete [words...]', { hidden: true })
    .description('print what may follow these words; called by completion scripts')
    .action((words: string[]) =>
      act(async (terminal) => {
        const { knownThings } = await import('./commands/complete.ts');
        // A shell that completes a word shows no notes of commands.
        const silent = new Terminal(true);
        terminal.raw(candidateLines(await candidatesFor(program, words, knownThings(silent))));
        leaveSoon();
      }),
    );
}

/** Adds the commands about files that come with folders. */
function addTrust(program: Command, act: (action: Act) => Promise<void>): void {
  const commands = () => import('./commands/trust.ts');
  const trust = program
    .command('trust')
    .description('the content of folders that this user trusts')
    .addHelpText(
      'after',
      `
A handfast.yaml or fleet.yaml that a command finds in the current folder, the skills of a repository and the
settings of agents in it are used only when this user trusted them, as they are now. A file named with --config
is used as it is. At a terminal the commands ask; elsewhere they fail with exit code 3.`,
    );
  trust
    .command('ls')
    .description('list trusted content, and whether it has changed')
    .addOption(jsonOption())
    .action(() => act(async (terminal) => (await commands()).trustList(terminal)));
  trust
    .command('add [folder]')
    .description('show the content of a folder, and trust it as it is now')
    .option('--yes', 'do not ask; required without a terminal')
    .addOption(jsonOption('print what was trusted; needs --yes'))
    .action((folder, flags) => act(async (terminal) => (await commands()).trustAdd(folder ?? '.', flags, terminal)));
  trust
    .command('rm <folder...>')
    .description('withdraw the trust in a folder and all below it')
    .addOption(jsonOption())
    .action((folders) => act(async (terminal) => (await commands()).trustRemove(folders, terminal)));
}
