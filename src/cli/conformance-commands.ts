/**
 * `handfast conformance`: checks that another implementation of a protocol keeps its rules.
 */
import { type Act, type Command, collect, InvalidArgumentError, jsonOption, Option } from './options.ts';

/** Reads seconds as milliseconds. */
const seconds = (text: string): number => {
  const value = Number(text);
  if (!(value > 0 && value <= 600)) throw new InvalidArgumentError('Expected seconds, up to 600.');
  return value * 1000;
};

/** Adds the options of every protocol. */
const common = (command: Command, forms: string): Command =>
  command
    .addOption(new Option('--target <address>', `the implementation under test: ${forms}`))
    .addOption(new Option('--token-file <file>', 'file with the token to send (default: HANDFAST_TOKEN, else none)'))
    .addOption(
      new Option('--filter <text>', 'only cases whose id or title has this text; A2E-HS-* (repeatable)').argParser(
        collect,
      ),
    )
    .addOption(
      new Option('--level <level>', 'only cases that bind at least so much').choices(['must', 'should', 'may']),
    )
    .addOption(new Option('--timeout <seconds>', 'longest wait for one answer (default 5)').argParser(seconds))
    .option('--list', 'list the cases and run none')
    .addOption(new Option('--junit <file>', 'also write a JUnit report'))
    .addOption(jsonOption('print one JSON document in place of TAP'));

export function addConformance(program: Command, act: (action: Act) => Promise<void>): void {
  const commands = () => import('./commands/conformance.ts');
  const conformance = program
    .command('conformance')
    .description('check whether an implementation keeps the rules of a protocol')
    .addHelpText(
      'after',
      `
Every case has an id that stays, a level (MUST, SHOULD, MAY) and the section of the protocol it comes from. The
report is TAP on stdout. Exit code 1 when a case failed. What the target does not offer is skipped, with the reason.`,
    );
  common(conformance.command('a2e'), 'stdio:COMMAND, tcp://, unix://, ws:// or http://')
    .description('check an A2E 1.0 host')
    .option('--tool <name>', 'a harmless tool that may be called; without it none is')
    .option('--args <json>', 'arguments for --tool (default {})')
    .option('--env <name>', 'an environment that may be reset and closed; without it none is')
    .option('--program <words>', 'a harmless program that may be started; without it none is')
    .option('--writes', 'also cases that leave something behind, such as a plan')
    .action((flags) => act(async (terminal) => (await commands()).conformanceA2e(flags, terminal)));
  common(conformance.command('session-rpc'), 'stdio:COMMAND, tcp://, unix:// or ws://')
    .description('check a server of session RPC 1.0.0')
    .addHelpText(
      'after',
      `
A target by stdio: is started for each conversation, with an empty home. Others are not changed: what needs a fresh server
is skipped.`,
    )
    .action((flags) => act(async (terminal) => (await commands()).conformanceSessionRpc(flags, terminal)));
  common(conformance.command('fleet'), 'stdio:COMMAND of a worker; tcp://, unix:// or ws:// of an orchestrator')
    .description('check a worker or an orchestrator of the fleet handshake 2')
    .option('--listen <address>', 'in place of --target: wait here for a worker that connects (tcp://, unix://)')
    .option('--brief <text>', 'a harmless brief that a worker may run; without it nothing is run')
    .action((flags) => act(async (terminal) => (await commands()).conformanceFleet(flags, terminal)));
}
