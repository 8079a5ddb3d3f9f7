/**
 * `handfast/testing`: for tests of plugins, tools, capabilities, agents and clients.
 *
 * A host with a token in a line, a model that follows a script, a peer that follows a script in each protocol, a clock
 * that the test controls, links that are cut or swallow everything, assertions on journals, and recordings of both
 * sides.
 */

import './base/node-version.ts';

import { randomBytes } from 'node:crypto';
import { toolsPlugin } from './capabilities/tools/plugin.ts';
import type { AnyTool } from './capabilities/tools/tool.ts';
import { type Agent, type ConnectOptions, connect } from './connect.ts';
import { createHost, type Host, type HostOptions } from './host/host.ts';
import type { Plugin } from './host/plugin.ts';
import { memoryJournal } from './journal/memory.ts';
import { listen } from './listen.ts';
import type { CapabilityName } from './protocol/a2e.ts';
import { createAuthenticator, tokenDigest } from './session/auth.ts';
import type { Principal } from './session/principal.ts';
import type { Listener } from './transport/link.ts';

export { type FakeClock, fakeClock } from './testing/fake-clock.ts';
export { type FaultyLink, faultyLink } from './testing/faulty-link.ts';
export { assertRequestsSettled, assertWholeJournal, journalOf } from './testing/journal-assertions.ts';
export type { ModelApi, ScriptedCall, ScriptedRound } from './testing/model-formats.ts';
export {
  type ModelRequest,
  type ModelServer,
  type ModelServerOptions,
  startModelServer,
} from './testing/model-server.ts';
export {
  compareRecordings,
  type Divergence,
  type DivergenceKind,
  type PlayClientOptions,
  playClient,
  type RecordedHost,
  type RecordedHostOptions,
  type ReplayedHost,
  type ReplayOptions,
  type ReplayReport,
  recordHost,
  replayedHost,
} from './testing/recordings.ts';
export {
  type AcceptsLinks,
  type ScriptedDialect,
  type ScriptedMessage,
  ScriptedPeer,
  type ScriptedPeerOptions,
  scriptedPeer,
  scriptedServer,
} from './testing/scripted-peer.ts';
export type { CloseInfo, Link, LinkMeter, LinkReceiver, Malformed, Message } from './transport/link.ts';
export { memoryPair } from './transport/memory.ts';

export interface TestHostOptions extends Partial<Omit<HostOptions, 'auth' | 'plugins'>> {
  readonly plugins?: readonly Plugin[];
  /** Tools, for tests that need no plugin. */
  readonly tools?: readonly AnyTool[];
  /** Principals besides the administrator, by name; each gets a token. */
  readonly principals?: Readonly<Record<string, Omit<Principal, 'name'>>>;
}

/** A started host of this process, its journal in memory, that demands a token. */
export interface TestHost extends AsyncDisposable {
  readonly host: Host;
  /** The token of the administrator, principal `test`. */
  readonly token: string;
  /** The token of each principal, by name. */
  readonly tokens: Readonly<Record<string, string>>;
  /** Connects in memory, with the administrator's token unless `token` names another one. */
  connect<const C extends CapabilityName = never>(options?: ConnectOptions<C>): Promise<Agent<C>>;
  /** Opens an address; default a free TCP port of the loopback interface. It is closed with the host. */
  listen(address?: string): Promise<Listener>;
}

/**
 * Starts a host with a token, in one line.
 *
 * @example
 * await using host = await testHost({ tools: [greet] });
 * await using agent = await host.connect({ capabilities: ['tools'] });
 */
export async function testHost(options: TestHostOptions = {}): Promise<TestHost> {
  const { plugins = [], tools = [], principals = {}, ...rest } = options;
  const all: Principal[] = [
    { name: 'test', admin: true },
    ...Object.entries(principals).map(([name, principal]) => ({ ...principal, name })),
  ];
  const tokens = Object.fromEntries(all.map(({ name }) => [name, randomBytes(16).toString('hex')]));
  const host = createHost({
    journal: memoryJournal(),
    ...rest,
    plugins: tools.length > 0 ? [...plugins, toolsPlugin({ tools })] : plugins,
    auth: createAuthenticator(
      all.map((principal) => ({ principal, digests: [tokenDigest(tokens[principal.name] as string)] })),
    ),
  });
  await host.start();
  const listeners: Listener[] = [];
  return {
    host,
    token: tokens.test as string,
    tokens,
    connect: (connecting = {}) => connect(host, { token: tokens.test, ...connecting }),
    async listen(address = 'tcp://127.0.0.1:0') {
      const listener = await listen(host, address);
      listeners.push(listener);
      return listener;
    },
    async [Symbol.asyncDispose]() {
      await host.close(0);
      await Promise.all(listeners.map((listener) => listener.close()));
    },
  };
}
export type { FakeClockOptions } from './testing/fake-clock.ts';
export type { TransportKind } from './transport/link.ts';
