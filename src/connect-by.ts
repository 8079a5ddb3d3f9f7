/**
 * The part of connecting to a host that Node and pages share: an agent over a link, with the clients of exactly the
 * requested capabilities. `connect.ts` and `connect.browser.ts` provide the transports to dial.
 */
import { type AgentOptions, AgentSession, type Dial } from './agent/agent.ts';
import { suggest } from './base/suggest.ts';
import { valueKind } from './base/value-kind.ts';
import type { CapabilityClients } from './capability.ts';
import type { Capability } from './packages/capability.ts';
import { type CapabilityName, capabilityNames, capabilityOf } from './protocol/a2e.ts';
import { shown } from './wire/codec.ts';
import { fail, type HandfastError } from './wire/errors.ts';

/** A name that the protocol, or a package by `CapabilityClients`, knows. */
export type KnownCapability = CapabilityName | (keyof CapabilityClients & string);

/** An agent with the clients of the capabilities `C`; others are not there, for the compiler too. */
export type Agent<C extends KnownCapability = never> = AgentSession &
  Pick<CapabilityClients, C & keyof CapabilityClients>;

/** The options of an agent that asks for capabilities. */
export interface AskingOptions<C extends KnownCapability = KnownCapability> extends AgentOptions {
  /**
   * Requested capabilities: names of those that come with Handfast, values that packages export. A capability that the
   * host does not grant stays callable and fails with `capability_missing`.
   */
  readonly capabilities?: readonly (C | Capability<C>)[];
}

/** The function that opens a link, and whether dialling again reaches the same host. */
export interface Dialling {
  readonly dial: Dial;
  readonly reconnects: boolean;
}

/** A capability as agents need it. */
export type Wanted = Pick<Capability, 'name' | 'client'>;

/**
 * Connects over the link that `dial` opens.
 * @param builtin returns the capability of a name that comes with Handfast
 */
export async function connectBy<const C extends KnownCapability>(
  { dial, reconnects }: Dialling,
  builtin: (name: string) => Wanted | undefined,
  options: AskingOptions<C>,
): Promise<Agent<C>> {
  const { capabilities = [] } = options;
  const wanted = wantedOf(capabilities, builtin);
  const names = wanted.map(({ name }) => name);
  const agent = await AgentSession.open(dial, names, reconnects ? options : { ...options, resume: false });
  const mistake = misspelt(agent, capabilities);
  if (mistake !== undefined) {
    await agent.close();
    throw mistake;
  }
  for (const { name, client } of wanted) {
    if (client !== undefined) Object.defineProperty(agent, name, { value: await client(agent), enumerable: true });
  }
  for (const name of names) {
    if (!(name in agent)) Object.defineProperty(agent, name, { get: () => agent.withoutClient(name) });
  }
  return agent as Agent<C>;
}

/**
 * Returns the requested capabilities. Throws `usage` for a value that is none: plain JavaScript has no compiler to find
 * it.
 */
function wantedOf(
  capabilities: readonly (string | Wanted)[],
  builtin: (name: string) => Wanted | undefined,
): readonly Wanted[] {
  const given: unknown = capabilities;
  if (!Array.isArray(given)) {
    throw fail('usage', `capabilities must be a list of names, e.g. ['tools'], got ${valueKind(given)}`);
  }
  return given.map((one: string | Wanted, at) => {
    if (typeof one === 'string') return builtin(one) ?? { name: one };
    if (typeof one?.name === 'string') return one;
    throw fail(
      'usage',
      `capabilities[${at}] must be a name or a capability that a package exports, got ${valueKind(one)}`,
    );
  });
}

/** Returns the error for an unknown name that is nearly one of the protocol: known once the host has not granted it. */
function misspelt(agent: AgentSession, asked: readonly (string | Wanted)[]): HandfastError | undefined {
  for (const name of asked) {
    if (typeof name !== 'string' || capabilityOf(name) !== undefined || agent.capabilities.get(name)?.enabled) continue;
    const near = suggest(name, capabilityNames);
    if (near !== undefined) return fail('usage', `the host has no capability ${shown(name)}; did you mean "${near}"?`);
  }
  return undefined;
}
