/**
 * `handfast record`, `replay` and `diff`: sessions stored at the protocol boundary, served again, and compared.
 *
 * The code of the commands is in `commands/`.
 */
import { ADDRESS_FORMS } from '../agent/addresses.ts';
import {
  type Act,
  type Command,
  collect,
  jsonOption,
  Option,
  refusingUnknown,
  timeoutOption,
  tokenFileOption,
} from './options.ts';

const volatileOption = (): Option =>
  new Option(
    '--volatile <pointer>',
    'JSON Pointer of a field that differs in every run; * and ** are wildcards (repeatable)',
  ).argParser(collect);

/** Adds the options about the search for secrets, beside the rules that always hold. */
const redacting = (command: Command): Command =>
  command
    .addOption(
      new Option('--secret-env <name>', 'the value of this variable is a secret (repeatable)').argParser(collect),
    )
    .option('--secrets <file>', 'file with further secrets, one a line')
    .addOption(
      new Option('--secret-field <name>', 'the text of members of this name is a secret (repeatable)').argParser(
        collect,
      ),
    );

export function addRecording(program: Command, act: (action: Act) => Promise<void>): void {
  const record = refusingUnknown(program.command('record'))
    .description('store the messages between clients and a host, without secrets; check, export and import recordings')
    .addHelpText(
      'after',
      `
Without a further word it records, as "handfast record run" does.`,
    );
  redacting(record.command('run [command...]', { isDefault: true }))
    .description('stand between clients and a host, and store their messages')
    .requiredOption('--out <folder>', 'folder for the recording: missing or empty')
    .addOption(new Option('--connect <address>', `the host: ${ADDRESS_FORMS}`))
    .option('--listen <address>', 'listen here for clients: http://, tcp:// or unix://; without it on stdin and stdout')
    .addOption(volatileOption())
    .addOption(jsonOption('print one line when ready: {"ready":true,"address":…,"folder":…,"pid":…}'))
    .addHelpText(
      'after',
      `
The host is an address, or a command behind --, which is started for each client and served on its pipes.
Agents, clients of sessions and workers of a fleet are recorded on every transport. With --listen it runs until
Ctrl-C. Tokens, keys and passwords are replaced before anything is written: by the names of fields, by the
environment variables that are named as secrets, and by the shapes of keys.`,
    )
    .action((command, flags) =>
      act(async (terminal) => (await import('./commands/record.ts')).record(command, flags, terminal)),
    );
  record
    .command('check <recording>')
    .description('check that a recording is whole and unchanged, and show its content')
    .addOption(jsonOption())
    .action((path, _flags) =>
      act(async (terminal) => (await import('./commands/record-check.ts')).recordCheck(path, terminal)),
    );
  record
    .command('export <recording> <file>')
    .description('write a recording into one file')
    .addOption(jsonOption())
    .action((path, file) =>
      act(async (terminal) => (await import('./commands/record-files.ts')).recordExport(path, file, terminal)),
    );
  record
    .command('import <file> <folder>')
    .description('check a file of "record export" and write it into a folder of its own; nothing in it is run')
    .addOption(jsonOption())
    .action((file, folder) =>
      act(async (terminal) => (await import('./commands/record-files.ts')).recordImport(file, folder, terminal)),
    );
  program
    .command('replay <recording>')
    .description('serve the recorded host to live clients, or play the recorded client against a live host')
    .addOption(new Option('--as <side>', 'which side is replayed').choices(['host', 'client']).default('host'))
    .option('--listen <address>', 'as host: listen here for clients: http://, tcp:// or unix://')
    .addOption(new Option('--connect <address>', `as client: the live host: ${ADDRESS_FORMS}`))
    .addOption(tokenFileOption())
    .option('--secrets <file>', 'as client: JSON file with the text to send for each placeholder of a secret')
    .addOption(timeoutOption())
    .addOption(
      new Option('--speed <speed>', 'as host: with the pauses of the recording, or without')
        .choices(['fast', 'as-recorded'])
        .default('fast'),
    )
    .addOption(
      new Option('--order <order>', 'as host: find requests by content, or only in the recorded order')
        .choices(['content', 'strict'])
        .default('content'),
    )
    .addOption(volatileOption())
    .option('--once', 'as host: end when every recorded connection was played')
    .option('--all', 'as client: show all differences, not only the first')
    .addOption(jsonOption('as host one line when ready, {"ready":true,"address":…,"pid":…}, and one at the end'))
    .addHelpText(
      'after',
      `
As host it needs no host, model, network or token. A message that was not recorded is refused with the nearest recorded
one and where the two differ; nothing is ever passed on. Ends at Ctrl-C, with exit code 1 if there was such a message.
As client it sends the recorded messages with the ids of the live host, and compares what that sends: exit code 1 when
it differs. --timeout bounds the wait for each message of the host (default 30).`,
    )
    .action((path, flags) =>
      act(async (terminal) => (await import('./commands/replay.ts')).replay(path, flags, terminal)),
    );
  program
    .command('diff <left> <right>')
    .description('show the first difference that matters between two recordings, or a recording and a journal')
    .option('--all', 'show all of them')
    .addOption(volatileOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Ids, times, declared fields, pings and the order of parallel requests make no difference. A journal is a file with the lines
of handfast tail SESSION --json. Exit code 1 when they differ.`,
    )
    .action((left, right, flags) =>
      act(async (terminal) => (await import('./commands/diff.ts')).diff(left, right, flags, terminal)),
    );
}
