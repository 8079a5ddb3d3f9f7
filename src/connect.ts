/**
 * `connect`: the entry point for agents in Node. Dials a host by any address, or one of this process; `connect-by.ts` does
 * the rest. Pages use `connect.browser.ts`.
 */
import { ADDRESS_FORMS, addressOf, type DialOptions } from './agent/addresses.ts';
import { valueKind } from './base/value-kind.ts';
import { builtinCapability } from './capabilities/index.ts';
import { type Agent, type AskingOptions, connectBy, type Dialling, type KnownCapability } from './connect-by.ts';
import { DEFAULT_MAX_MESSAGE_BYTES, type Link } from './transport/link.ts';
import { fail } from './wire/errors.ts';

export type { Agent, AskingOptions, KnownCapability } from './connect-by.ts';

export interface ConnectOptions<C extends KnownCapability = KnownCapability>
  extends AskingOptions<C>,
    Partial<Pick<DialOptions, 'cwd' | 'env' | 'onStderr'>> {}

/** A host in this process, which takes over a link. */
export interface InProcessHost {
  accept(link: Link): void;
  /** False: it was not started yet, and connecting is refused with `usage`. */
  readonly started?: boolean;
}

/**
 * Connects to a host.
 *
 * @param address `http(s)://`, `ws(s)://`, `tcp://`, `unix://`, `stdio:COMMAND`, `stdio:` for the host that started this process, or a host of this process
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
  const route = typeof address === 'string' ? byAddress(address, options) : inProcess(address);
  return connectBy(route, builtinCapability, options);
}

function byAddress(address: string, options: ConnectOptions): Dialling {
  return addressOf(address, {
    timeoutMs: options.connectTimeoutMs ?? 10_000,
    maxMessageBytes: options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES,
    cwd: options.cwd,
    env: options.env,
    onStderr: options.onStderr,
  });
}

function inProcess(host: InProcessHost): Dialling {
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
