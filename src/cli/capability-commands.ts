/**
 * The commands of capabilities, below `handfast <capability>`: of those that come with Handfast, and of the packages that
 * the configuration names, which are loaded only for a command that nothing else has.
 */
import type { AgentSession } from '../agent/agent.ts';
import { builtinCapabilities } from '../capabilities/index.ts';
import type { PluginConfig } from '../config/config.ts';
import type {
  Capability,
  CapabilityCommand,
  CapabilityHostCommand,
  CapabilityLocalCommand,
} from '../packages/capability.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import type { UpFlags } from './commands/up.ts';
import { configOf } from './config-file.ts';
import type { ConnectFlags } from './connect/find-host.ts';
import type { AgentForCommand } from './connect/open-agent.ts';
import type { FleetFlags } from './connect/open-fleet.ts';
import { type Act, type Command, configOption, connecting, jsonOption, serving, withFleetOptions } from './options.ts';
import type { Terminal } from './output/terminal.ts';

type Perform = (action: Act) => Promise<void>;

/** Words that look at every command. */
const LOOKS_AT_ALL = ['complete', 'completion'];

/**
 * Adds the commands of the built-in capabilities: all, or for groups that the words do not name only the help of the whole
 * group, so that no command pays for loading another.
 */
export async function addBuiltinCommands(
  program: Command,
  words: readonly string[] | undefined,
  act: Perform,
): Promise<void> {
  const asked = words && commandOf(program, words);
  const all = words === undefined || LOOKS_AT_ALL.includes(asked ?? '');
  for (const capability of builtinCapabilities) {
    const { name, commandName = name, about, commands, hostCommands, localCommands } = capability;
    if (all || asked === commandName) await addCommands(program, capability, act);
    else if ((commands ?? hostCommands ?? localCommands) !== undefined) groupOf(program, commandName, about);
  }
}

/** Adds the commands of the packages in the configuration, when the words ask for a command that is not there. */
export async function addPackageCommands(program: Command, words: readonly string[], act: Perform): Promise<void> {
  const name = commandOf(program, words);
  const known = program.commands.some((command) => command.name() === name || command.aliases().includes(name ?? ''));
  if (name === undefined || known) return;
  for (const capability of await packageCapabilities(words)) await addCommands(program, capability, act);
}

/**
 * Loads the capabilities of the packages that the configuration names; none where it cannot be read, which `doctor` reports.
 * Fails with `untrusted_folder`.
 */
async function packageCapabilities(words: readonly string[]): Promise<Capability[]> {
  const at = words.indexOf('--config');
  const config = await configOf(at === -1 ? undefined : words[at + 1]).catch((thrown: unknown) => {
    const { code, message, detail } = asError(thrown);
    if (code !== 'untrusted_folder') return undefined;
    throw fail(
      'untrusted_folder',
      `this command is not known, and the file that may add it is not used: ${message}`,
      detail,
      thrown,
    );
  });
  const foreign = config?.plugins.filter(({ builtin }) => !builtin) ?? [];
  if (foreign.length === 0) return [];
  const { loadCapabilities, shareOwnPackage } = await import('../server/plugin-modules.ts');
  shareOwnPackage();
  return (await Promise.all(foreign.map(loadCapabilities))).flat();
}

/** Returns the first word that is a command: not an option, nor the value of one. */
function commandOf(program: Command, words: readonly string[]): string | undefined {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (!word.startsWith('-')) return word === 'help' ? words[at + 1] : word;
    const option = program.options.find(({ long, short }) => long === word || short === word);
    if (option?.required) at++;
  }
  return undefined;
}

const listed = async <T>(
  of: readonly T[] | (() => readonly T[] | Promise<readonly T[]>) = [],
): Promise<readonly T[]> => (typeof of === 'function' ? of() : of);

const groupOf = (program: Command, name: string, about: string): Command =>
  program.commands.find((command) => command.name() === name) ?? program.command(name).description(about);

async function addCommands(program: Command, capability: Capability, act: Perform): Promise<void> {
  const { name, commandName = name, about, client } = capability;
  const commands = await listed(capability.commands);
  const hostCommands = await listed(capability.hostCommands);
  const localCommands = await listed(capability.localCommands);
  if (commands.length + hostCommands.length + localCommands.length === 0) return;
  const group = groupOf(program, commandName, about);
  for (const command of commands) {
    const made = connecting(group.command(command.usage)).description(command.about).addOption(jsonOption());
    if (command.fleet) withFleetOptions(made);
    for (const [flags, help] of command.options ?? []) made.option(flags, help);
    if (command.help !== undefined) made.addHelpText('after', `\n${command.help}`);
    made.action((...given: unknown[]) => act((terminal) => perform(command, { name, client }, given, terminal)));
  }
  for (const command of hostCommands) {
    const made = serving(group.command(command.usage)).description(command.about);
    for (const [flags, help] of command.options ?? []) made.option(flags, help);
    if (command.help !== undefined) made.addHelpText('after', `\n${command.help}`);
    made.action((...given: unknown[]) => act((terminal) => host(command, name, given, terminal)));
  }
  for (const command of localCommands) {
    const made = group.command(command.usage).description(command.about);
    made.addOption(configOption()).addOption(jsonOption());
    for (const [flags, help] of command.options ?? []) made.option(flags, help);
    if (command.help !== undefined) made.addHelpText('after', `\n${command.help}`);
    made.action((...given: unknown[]) => act((terminal) => local(command, name, given, terminal)));
  }
}

/** Runs a command without a host. */
async function local(
  command: CapabilityLocalCommand,
  name: string,
  given: readonly unknown[],
  terminal: Terminal,
): Promise<number | undefined> {
  const { interruptible } = await import('./interrupt.ts');
  const options = given.at(-2) as Readonly<Record<string, unknown>>;
  const args = given.slice(0, -2) as (string | string[] | undefined)[];
  const configured = async () => {
    const { plugins } = await configOf(options.config as string | undefined);
    return plugins.find(({ use }) => use === name)?.options;
  };
  return interruptible((signal) => command.run({ args, options, signal, terminal }, configured));
}

/** Runs a host until Ctrl-C. The plugin of the capability has the options of the command, and is there in any case. */
async function host(
  command: CapabilityHostCommand,
  name: string,
  given: readonly unknown[],
  terminal: Terminal,
): Promise<void> {
  const { up } = await import('./commands/up.ts');
  const options = given.at(-2) as UpFlags & Record<string, unknown>;
  const args = given.slice(0, -2) as (string | string[] | undefined)[];
  const changed = (plugin: PluginConfig): PluginConfig => ({
    ...plugin,
    options: command.pluginOptions({ args, options }, plugin.options),
  });
  await up(options, terminal, (config) => {
    const others = config.plugins.filter(({ use }) => use !== name);
    const own = config.plugins.find(({ use }) => use === name);
    const fresh: PluginConfig = { use: name, builtin: true, priority: 0, exclusive: false, options: {} };
    return { ...config, plugins: [...others, changed(own ?? fresh)] };
  });
}

/**
 * Fails with `capability_missing`, and names the setting that gives it to the host: further capabilities of a command may be
 * granted alone.
 */
function mustHave(agent: AgentSession, name: string): void {
  try {
    agent.require(name);
  } catch (thrown) {
    const { code, message, detail } = asError(thrown);
    const advice = 'the configuration of the host loads it with plugins, and grants it with capabilities of the token';
    throw new HandfastError(code, `${message}; ${advice}`, { detail, capability: name, cause: thrown });
  }
}

/** Runs a command with an agent of its capability. Commander gives the arguments, then the options, then itself. */
async function perform(
  command: CapabilityCommand,
  { name, client }: Pick<Capability, 'name' | 'client'>,
  given: readonly unknown[],
  terminal: Parameters<Act>[0],
): Promise<number | undefined> {
  const options = given.at(-2) as ConnectFlags & Record<string, unknown>;
  const args = given.slice(0, -2) as (string | string[] | undefined)[];
  const { withAgent } = await import('./connect/open-agent.ts');
  const work = async ({ agent, signal, openAgain }: AgentForCommand): Promise<number | undefined> => {
    mustHave(agent, name);
    const withClient = async (opened: AgentSession): Promise<AgentSession> =>
      client === undefined
        ? opened
        : Object.defineProperty(opened, name, { value: await client(opened), enumerable: true });
    const openAgent = async () => withClient(await openAgain());
    const openFleet = async () => {
      if (!command.fleet) throw fail('usage', 'only a command that declares `fleet` works with a fleet');
      return (await import('./connect/open-fleet.ts')).openFleet(options as FleetFlags, terminal, signal);
    };
    return command.run({ args, options, agent: await withClient(agent), openAgent, openFleet, signal, terminal });
  };
  return withAgent({ ...options, fleet: false }, [name, ...(command.capabilities ?? [])], terminal, work, {
    agentId: command.agentId,
    // A command that opens another agent need not wait long for this one.
    ...(command.fleet && { reconnect: { maxMs: 2_000 } }),
  });
}
