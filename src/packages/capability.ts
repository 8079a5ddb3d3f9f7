/**
 * What a capability declares: its name, its plugin for hosts, its client for agents, its commands, its checks. Packages
 * export such a value as `capability`; the capabilities that come with Handfast are such values too.
 *
 * Hosts (`server/`), agents (`connect.ts`) and the command line (`cli/`) read it; none of them knows a capability by name.
 * @see docs/capabilities.md
 */
import type { AgentSession } from '../agent/agent.ts';
import type { JsonSchema } from '../base/json-schema.ts';
import type { Plugin } from '../host/plugin.ts';

/** The options a configuration gives, checked against the schema and with its defaults filled in. */
export type CapabilityOptions = Readonly<Record<string, unknown>>;

export interface Capability<Name extends string = string> {
  /** One of the protocol, or a name of its own: `a-z`, digits, `_`, `.`, `-`. */
  readonly name: Name;
  /** One sentence for `handfast doctor` and help. */
  readonly about: string;
  /** The shape of `options` in the configuration. Without it no options are accepted. */
  readonly options?: JsonSchema;
  /** Makes the plugin of a host; loaded and called only by hosts. */
  readonly plugin?: (options: CapabilityOptions) => Made<Plugin | readonly Plugin[]>;
  /** Makes `agent.<name>`. Its type belongs into `CapabilityClients` of `handfast/capability`. */
  readonly client?: (agent: AgentSession) => unknown;
  /** Commands below `handfast <name>`. */
  readonly commands?: readonly CapabilityCommand[];
  /** What `handfast doctor` looks at, with the options of the configuration. */
  readonly check?: (options: CapabilityOptions) => Made<readonly CapabilityFinding[]>;
}

type Made<T> = T | Promise<T>;

/** One line of `handfast doctor`. */
export interface CapabilityFinding {
  readonly status: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** What to do about it. */
  readonly fix?: string;
}

/** A command that calls a host. */
export interface CapabilityCommand {
  /** Name and arguments: `add <text>`, `ls`, `show <id> [more...]`. */
  readonly usage: string;
  readonly about: string;
  /** Options as commander writes them: `['--all', 'also what is hidden']`. `--json` is always there. */
  readonly options?: readonly (readonly [flags: string, about: string])[];
  /** Text behind the help: examples. */
  readonly help?: string;
  /** Does the work. What it throws is reported, and its row of the error table gives the exit code. */
  run(context: CommandContext): Promise<number | undefined>;
}

export interface CommandContext {
  /** The arguments in order; one that may repeat is a list. */
  readonly args: readonly (string | readonly string[] | undefined)[];
  readonly options: Readonly<Record<string, unknown>>;
  /** An agent with this capability, by the address of the command line. */
  readonly agent: AgentSession;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  /** True when `--json` was given: print documents. */
  readonly json: boolean;
  /** Prints a line for people. */
  print(line: string): void;
  /** Prints a value as one line of JSON. */
  document(value: unknown): void;
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
