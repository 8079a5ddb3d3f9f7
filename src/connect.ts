/**
 * `connect`: the entry point for agents. Dials a host, performs the handshake, and gives back an agent with the clients of exactly
 * the capabilities that were asked for.
 */
import { ADDRESS_FORMS, addressOf, type DialOptions } from './agent/addresses.ts';
import { type AgentOptions, AgentSession, type Dial } from './agent/agent.ts';
import { suggest } from './base/suggest.ts';
import { valueKind } from './base/value-kind.ts';
import { builtinCapability } from './capabilities/index.ts';
import type { CapabilityClients } from './capability.ts';
import type { Capability } from './packages/capability.ts';
import { type CapabilityName, capabilityNames, capabilityOf } from './protocol/a2e.ts';
import { DEFAULT_MAX_MESSAGE_BYTES, type Link } from './transport/link.ts';
import { shown } from './wire/codec.ts';
import { fail, type HandfastError } from './wire/errors.ts';

/** A name that the protocol, or a package by `CapabilityClients`, knows. */
export type KnownCapability = CapabilityName | (keyof CapabilityClients & string);

/** An agent with the clients of the capabilities `C`; others are not there, for the compiler too. */
export type Agent<C extends KnownCapability = never> = AgentSession &
  Pick<CapabilityClients, C & keyof CapabilityClients>;

export interface ConnectOptions<C extends KnownCapability = KnownCapability>
  extends AgentOptions,
    Partial<Pick<DialOptions, 'cwd' | 'env' | 'onStderr'>> {
  /**
   * Requested capabilities: names of those that come with Handfast, values that packages export. What the host does not grant
   * stays callable and fails with `capability_missing`.
   */
  readonly capabilities?: readonly (C | Capability<C>)[];
}

/** Anything that takes a link over: a host in this process. */
export interface InProcessHost {
  accept(link: Link): void;
  /** False: it was not started yet, and connecting is refused with `usage`. */
  readonly started?: boolean;
}

/**
 * Connects to a host.
 *
 * @param address `http(s)://`, `ws(s)://`, `tcp://`, `unix://`, `stdio:COMMAND`, or a host of this process
 * @throws unreachable, timeout, auth_failed, version_mismatch, no_caps, server_error, cancelled, usage
 *
 * @example
 * await using agent = await connect('tcp://127.0.0.1:4701', { capabilities: ['tools'] });
 * const result = await agent.tools.call('read_file', { path: 'README.md' });
 */
export async function connect<const C extends KnownCapability = never>(
  address: string | InProcessHost,
  options: ConnectOptions<C> = {},
): Promise<Agent<C>> {
  const wanted = wantedOf(options.capabilities ?? []);
  const names = wanted.map(({ name }) => name);
  const { dial, reconnects } = typeof address === 'string' ? byAddress(address, options) : inProcess(address);
  const agent = await AgentSession.open(dial, names, reconnects ? options : { ...options, resume: false });
  const mistake = misspelt(agent, options.capabilities ?? []);
  if (mistake !== undefined) {
    await agent.close();
    throw mistake;
  }
  for (const { name, client } of wanted) {
    if (client !== undefined) Object.defineProperty(agent, name, { value: client(agent), enumerable: true });
  }
  for (const name of names) {
    if (!(name in agent)) Object.defineProperty(agent, name, { get: () => agent.withoutClient(name) });
  }
  return agent as Agent<C>;
}

type Wanted = Pick<Capability, 'name' | 'client'>;

/** The capabilities that were asked for. Throws `usage` for what is none: plain JavaScript has no compiler to find it. */
function wantedOf(capabilities: readonly (string | Capability)[]): readonly Wanted[] {
  const given: unknown = capabilities;
  if (!Array.isArray(given)) {
    throw fail('usage', `capabilities must be a list of names, e.g. ['tools'], got ${valueKind(given)}`);
  }
  return given.map((one: string | Capability, at) => {
    if (typeof one === 'string') return named(one);
    if (typeof one?.name === 'string') return one;
    throw fail(
      'usage',
      `capabilities[${at}] must be a name or a capability that a package exports, got ${valueKind(one)}`,
    );
  });
}

/** A name that nothing has and that is nearly one of the protocol: found once the host has not granted it. */
function misspelt(agent: AgentSession, asked: readonly (string | Capability)[]): HandfastError | undefined {
  for (const name of asked) {
    if (typeof name !== 'string' || capabilityOf(name) !== undefined || agent.capabilities.get(name)?.enabled) continue;
    const near = suggest(name, capabilityNames);
    if (near !== undefined) return fail('usage', `the host has no capability ${shown(name)}; did you mean "${near}"?`);
  }
  return undefined;
}

/** A capability that is asked for by its name: with its client, where it comes with Handfast. */
const named = (name: string): Wanted => builtinCapability(name) ?? { name };

function byAddress(address: string, options: ConnectOptions): { dial: Dial; reconnects: boolean } {
  return addressOf(address, {
    timeoutMs: options.connectTimeoutMs ?? 10_000,
    maxMessageBytes: options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES,
    cwd: options.cwd,
    env: options.env,
    onStderr: options.onStderr,
  });
}

function inProcess(host: InProcessHost): { dial: Dial; reconnects: boolean } {
  if (typeof (host as Partial<InProcessHost> | undefined)?.accept !== 'function') {
    throw fail('usage', `expected an address (${ADDRESS_FORMS}) or a host of this process, got ${valueKind(host)}`);
  }
  if (host.started === false)
    throw fail('usage', 'the host was not started; await host.start() before connecting to it');
  return {
    reconnects: false,
    dial: async () => {
      const { memoryPair } = await import('./transport/memory.ts');
      const [ours, theirs] = memoryPair();
      host.accept(theirs);
      return ours;
    },
  };
}

export { ADDRESS_FORMS };
