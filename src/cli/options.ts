/** The options commands share, and how their values are read: the one file that knows the command line library. */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { ADDRESS_FORMS } from '../agent/addresses.ts';
import { suggest } from '../base/suggest.ts';
import type { Terminal } from './output/terminal.ts';

/** The action of a command; a number is its exit code, anything else means 0. */
export type Act = (terminal: Terminal) => Promise<unknown>;

/** Adds the options of every command that talks to a host. */
export function connecting(command: Command): Command {
  return command
    .addOption(connectOption())
    .addOption(tokenFileOption())
    .addOption(new Option('--cap <names>', 'capabilities to ask for, with commas between').argParser(names));
}

/**
 * Refuses a first word that is none of the commands of a group which runs one of them without a word: the default would take it
 * for its argument, and report another error.
 */
export const refusingUnknown = (group: Command): Command =>
  group.hook('preSubcommand', () => {
    const [word = '-'] = group.args;
    const names = [...group.commands.map((command) => command.name()), 'help'];
    if (word.startsWith('-') || names.includes(word)) return;
    const near = suggest(word, names);
    const meant = near === undefined ? `there are ${names.join(', ')}` : `Did you mean ${near}?`;
    group.error(`error: unknown command '${word}' (${meant})`, { code: 'commander.unknownCommand' });
  });

export const connectOption = (): Option =>
  new Option('--connect <address>', `the host: ${ADDRESS_FORMS} (default: the one of this user that is running)`);

export const tokenFileOption = (): Option =>
  new Option('--token-file <file>', 'file with the token (default: HANDFAST_TOKEN, then the token of this user)');

/** Adds the options of a command that talks to a host and to a fleet. */
export const withFleetOptions = (command: Command): Command =>
  command
    .addOption(new Option('--fleet <name>', 'which fleet of this user, if several are running'))
    .addOption(new Option('--fleet-connect <address>', 'the server of the fleet (default: the one of this user)'))
    .addOption(new Option('--fleet-token-file <file>', 'file with the token for the fleet'));

export const configOption = (): Option =>
  new Option('--config <file>', 'configuration (default: handfast.yaml here, if there is one and this user trusts it)');

export const jsonOption = (about = 'print JSON; errors as one JSON line on stderr'): Option =>
  new Option('--json', about);

export const timeoutOption = (): Option =>
  new Option('--timeout <seconds>', 'timeout (default 60; 0: only that of the host)').argParser((text) => {
    const seconds = Number(text);
    if (text === '' || !Number.isFinite(seconds) || seconds < 0) throw new InvalidArgumentError('Expected seconds.');
    return seconds;
  });

/** Adds the options of every command that talks to a server of sessions. */
export const reaching = (command: Command): Command => command.addOption(connectOption()).addOption(tokenFileOption());

/** Adds the options of every command that is a host until Ctrl-C. */
export const serving = (command: Command): Command =>
  command
    .addOption(configOption())
    .addOption(new Option('--port <n>', 'port of the HTTP address (default 4700; 0: any free one)').argParser(port))
    .addOption(
      new Option('--listen <address>', 'listen here instead: http://, tcp:// or unix:// (repeatable)').argParser(
        collect,
      ),
    )
    .option('--insecure-bind', 'allow addresses other machines can reach, unencrypted; needs auth.tokens')
    .option('--verbose', 'log handshakes and the like to stderr')
    .addOption(
      jsonOption('print one line when ready: {"ready":true, "url":…, "listeners":[…], "token_file":…, "pid":…}'),
    );

export const thinkingOption = (): Option =>
  new Option('--thinking <level>', 'how much the model thinks').choices([
    'off',
    'minimal',
    'low',
    'medium',
    'high',
    'xhigh',
  ]);

export const collect = (text: string, previous: readonly string[] = []): string[] => [...previous, text];

export const names = (text: string): string[] => {
  const list = text.split(',').map((name) => name.trim());
  if (list.includes('')) throw new InvalidArgumentError('Expected names with commas between.');
  return list;
};

export function whole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.');
  return Number(text);
}

export function positive(text: string): number {
  const value = whole(text);
  if (value < 1) throw new InvalidArgumentError('Expected 1 or more.');
  return value;
}

/** Reads a number from 1 to `most`. */
export const upTo =
  (most: number) =>
  (text: string): number => {
    const value = positive(text);
    if (value > most) throw new InvalidArgumentError(`Expected at most ${most}.`);
    return value;
  };

export function port(text: string): number {
  const value = whole(text);
  if (value > 65_535) throw new InvalidArgumentError('Expected a port from 0 to 65535.');
  return value;
}

export { Argument, Command, CommanderError, InvalidArgumentError, Option };
