/**
 * `connect`: the entry point for agents. Dials a host, performs the handshake, and gives back an agent with the clients of exactly
 * the capabilities that were asked for.
 */
import { ADDRESS_FORMS, addressOf, type DialOptions } from './agent/addresses.ts';
import { type AgentOptions, AgentSession, type Dial } from './agent/agent.ts';
import { builtinCapability } from './capabilities/index.ts';
import type { CapabilityClients } from './capability.ts';
import type { Capability } from './packages/capability.ts';
import type { CapabilityName } from './protocol/a2e.ts';
import { DEFAULT_MAX_MESSAGE_BYTES, type Link } from './transport/link.ts';

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
  const wanted = (options.capabilities ?? []).map((one) => (typeof one === 'string' ? named(one) : one));
  const names = wanted.map(({ name }) => name);
  const { dial, reconnects } = typeof address === 'string' ? byAddress(address, options) : inProcess(address);
  const agent = await AgentSession.open(dial, names, reconnects ? options : { ...options, resume: false });
  for (const { name, client } of wanted) {
    if (client !== undefined) Object.defineProperty(agent, name, { value: client(agent), enumerable: true });
  }
  return agent as Agent<C>;
}

/** A capability that is asked for by its name: with its client, where it comes with Handfast. */
const named = (name: string): Pick<Capability, 'name' | 'client'> => builtinCapability(name) ?? { name };

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
