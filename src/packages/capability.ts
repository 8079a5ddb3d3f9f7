/**
 * A capability's declaration: its name, its plugin for hosts, its client for agents, its commands, its checks. Packages
 * export a value of this form as `capability`; the capabilities that come with Handfast have it too.
 *
 * Hosts, agents and the command line work with these values; none of them knows a capability by name.
 * @see docs/capabilities.md
 */
import type { AgentSession } from '../agent/agent.ts';
import type { SettingSchema } from '../config/setting.ts';
import type { Plugin, PluginOffer } from '../host/plugin.ts';
import type * as fleet from '../protocol/fleet-records.schema.ts';
import type { Wire } from '../wire/schema.ts';

/** The options a configuration gives, checked against the schema and with its defaults filled in. */
export type CapabilityOptions = Readonly<Record<string, unknown>>;

export interface Capability<Name extends string = string> {
  /** A name of the protocol, or another name: `a-z`, digits, `_`, `.`, `-`. */
  readonly name: Name;
  /** One sentence for `handfast doctor` and help. */
  readonly about: string;
  /**
   * The shape of `options` in the configuration, as JSON Schema with snake_case keys; see `SettingSchema` for the keywords
   * that are understood. Problems are reported by line and column; the options arrive with defaults and camelCase keys.
   * Without it no options are accepted.
   */
  readonly options?: SettingSchema;
  /**
   * For a capability that comes with Handfast: a host whose configuration names no plugins has it. With its options of
   * that case it neither runs a program nor spends money nor leaves the machine; `tools` is the exception. The schema
   * of its options is in `options.schema.ts` of its folder.
   */
  readonly byDefault?: boolean;
  /** Makes the plugin of a host; loaded and called only by hosts. */
  readonly plugin?: (options: CapabilityOptions) => Made<Plugin | readonly Plugin[]>;
  /**
   * Returns the offer of hosts in handshakes before the plugin is loaded: the `metadata`, `grant` and `store` of the
   * plugin. With it, `plugin` is called after the handshake of the first session that was granted the capability; it
   * creates one plugin, with the name of the capability, and, if the offer declares it, one of tools for its sessions,
   * in this order. Undefined for options with which the plugin must exist at the start.
   */
  readonly offer?: (options: CapabilityOptions) => PluginOffer | undefined;
  /**
   * Returns, for a capability that comes with Handfast, the absolute paths of files and folders whose content its
   * plugin runs. Principals that are not administrators may read them and not change them.
   */
  readonly trustedPaths?: (options: CapabilityOptions, host: CheckedHost) => readonly string[];
  /**
   * Makes `agent.<name>`, or a promise of it, so that only agents that asked for the capability load its client. Its type belongs
   * into `CapabilityClients` of `handfast/capability`.
   */
  readonly client?: (agent: AgentSession) => Made<unknown>;
  /** The word that its commands are below, where it is not its name. */
  readonly commandName?: string;
  /** Commands below `handfast <name>`; as a function, they are loaded only when they are asked for. */
  readonly commands?: Listed<CapabilityCommand>;
  /** Commands below `handfast <name>` that run a host until Ctrl-C, as `handfast up` does. */
  readonly hostCommands?: Listed<CapabilityHostCommand>;
  /** Commands below `handfast <name>` that need no host. */
  readonly localCommands?: Listed<CapabilityLocalCommand>;
  /**
   * Returns the note of `handfast task retry` about a task of the fleet that a command of this capability submitted.
   * For built-in capabilities.
   */
  readonly retryNote?: (fleetTaskId: string) => string | undefined;
  /** Returns the findings for `handfast doctor`, with the options of the configuration. */
  readonly check?: (options: CapabilityOptions, host: CheckedHost) => Made<readonly CapabilityFinding[]>;
}

type Made<T> = T | Promise<T>;
type Listed<T> = readonly T[] | (() => Made<readonly T[]>);

/** Facts of `handfast doctor` about the host that the configuration describes. */
export interface CheckedHost {
  /** Absolute path of the workspace. */
  readonly workspace: string;
}

/** One line of `handfast doctor`. */
export interface CapabilityFinding {
  readonly status: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** The remedy; for `ok`: how to get a missing feature. */
  readonly fix?: string;
}

/** A command that calls a host. */
export interface CapabilityCommand {
  /** Name and arguments: `add <text>`, `ls`, `show <id> [more...]`. */
  readonly usage: string;
  readonly about: string;
  /** Options as commander writes them: `['--all', 'also what is hidden']`. `--json` always exists. */
  readonly options?: readonly (readonly [flags: string, about: string])[];
  /** Text behind the help: examples. */
  readonly help?: string;
  /** Capabilities that its agent has beside its own, e.g. `tools`. */
  readonly capabilities?: readonly string[];
  /** The id of its agent. Default `handfast-cli`. */
  readonly agentId?: string;
  /**
   * True if it also works with a fleet: it has `--fleet`, `--fleet-connect`, `--fleet-token-file`, and `openFleet`. Its
   * agents reconnect for 2 s.
   */
  readonly fleet?: boolean;
  /** Does the work. An error that it throws is reported, and its row of the error table gives the exit code. */
  run(context: CommandContext): Promise<number | undefined>;
}

/** A command that runs a host whose plugin of this capability has options that differ from the configuration. */
export interface CapabilityHostCommand extends Pick<CapabilityCommand, 'usage' | 'about' | 'options' | 'help'> {
  /**
   * Returns the options of the plugin, with camelCase keys. Throws `usage`.
   * @param base those of the configuration
   */
  pluginOptions(given: Pick<CommandContext, 'args' | 'options'>, base: CapabilityOptions): CapabilityOptions;
}

/** A command that works on files of this machine. */
export interface CapabilityLocalCommand extends Pick<CapabilityCommand, 'usage' | 'about' | 'options' | 'help'> {
  /**
   * Does the work. An error that it throws is reported, and its row of the error table gives the exit code.
   * @param configured reads the options of the plugin; undefined if the configuration does not name it. Fails with
   * `config_invalid`
   */
  run(
    context: Pick<CommandContext, 'args' | 'options' | 'signal' | 'terminal'>,
    configured: () => Promise<CapabilityOptions | undefined>,
  ): Promise<number | undefined>;
}

export interface CommandContext {
  /** The arguments in order; one that may repeat is a list. */
  readonly args: readonly (string | readonly string[] | undefined)[];
  readonly options: Readonly<Record<string, unknown>>;
  /** An agent with this capability, and its client as `agent.<name>`, by the address of the command line. */
  readonly agent: AgentSession;
  /**
   * Opens another agent, for a command that continues when `agent` was lost with its host: finds the host again. The
   * command closes it. Fails with `unreachable` and the errors of a handshake.
   */
  readonly openAgent: () => Promise<AgentSession>;
  /**
   * Opens a client of the fleet that the options name. For a command with `fleet`. Fails with `unreachable`, `usage`,
   * `auth_failed`.
   */
  readonly openFleet: () => Promise<CommandFleet>;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  readonly terminal: CommandTerminal;
}

export type FleetTask = Wire<typeof fleet.TaskRecord>;
export type FleetTaskSpec = Wire<typeof fleet.TaskSpec>;

/**
 * A fleet in the form for commands. Each method fails as the orchestrator does; a method that only reads waits half a
 * minute for a lost fleet.
 */
export interface CommandFleet extends AsyncDisposable {
  readonly name: string;
  /**
   * Submits a task. The same `task_id` with the same content is the same task. Fails with `duplicate_conflict`,
   * `denied`, `over_capacity`.
   */
  submit(spec: FleetTaskSpec): Promise<FleetTask>;
  /** Fails with `not_found`. */
  get(taskId: string): Promise<FleetTask>;
  cancel(taskId: string, reason?: string): Promise<FleetTask>;
  /** Yields the past and future events of a task, until it has ended or was parked: then returns the task. */
  follow(
    taskId: string,
    options?: { readonly signal?: AbortSignal },
  ): AsyncGenerator<{ readonly kind: string; readonly body?: Readonly<Record<string, unknown>> }, FleetTask>;
}

/** The output of a command: results to stdout, notes about them to stderr. */
export interface CommandTerminal {
  /** True when `--json` was given: print documents. */
  readonly json: boolean;
  /** Prints one line of the result. */
  line(text?: string): void;
  /** Prints text of a result without adding a line break. Control characters in it are shown, not obeyed. */
  raw(text: string): void;
  /** Prints text of the other side's standard error, in the same way. */
  rawError(text: string): void;
  /** Prints output of a program: byte for byte into a pipe or a file. */
  exact(text: string): void;
  /** Prints the standard error of a program, in the same way. */
  exactError(text: string): void;
  /** Prints one JSON document, on one line. */
  document(value: unknown): void;
  /** Prints one line about the result, for people: to stderr. */
  note(text: string): void;
  /** Rows below headings, fitted into the width of the terminal. */
  table(headings: readonly string[], rows: readonly (readonly string[])[]): void;
}

/**
 * Declares a capability.
 *
 * @example
 * export const capability = defineCapability({
 *   name: 'notes',
 *   about: 'Notes that agents share',
 *   plugin: async (options) => (await import('./plugin.js')).notesPlugin(options),
 *   client: (agent) => new NotesClient(agent),
 * });
 */
export function defineCapability<const Name extends string>(capability: Capability<Name>): Capability<Name> {
  return capability;
}
