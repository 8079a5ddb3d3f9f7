/**
 * `handfast/control`: a client of session RPC for programs and pages.
 *
 * @example
 * await using control = await connectControl('ws://127.0.0.1:4700/rpc', { token });
 * const session = await control.create({ title: 'first steps' });
 * for await (const event of await session.prompt('read README.md and count its lines')) console.log(event.type);
 */
import { ControlClient, type ControlOptions, type Dial } from './control-client/control.ts';
import { HIGHEST_MAX_MESSAGE_BYTES, type Link } from './transport/link.ts';

export interface ConnectControlOptions extends ControlOptions {
  /** For `stdio:` addresses: working directory and environment additions of the child. */
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** For `stdio:` addresses: gets the lines the child writes to its stderr. */
  readonly onStderr?: (line: string) => void;
}

/** Anything that takes a link over: a server in this process. */
export interface InProcessServer {
  accept(link: Link): void;
}

/**
 * Connects to a server of sessions.
 *
 * @param address `ws(s)://host:port/rpc`, `http(s)://host:port` (its `/rpc`), `tcp://`, `unix://`, `stdio:COMMAND` such as
 *   `stdio:handfast rpc`, or a server of this process. In a browser: the first two.
 * @throws unreachable, timeout, auth_failed, version_mismatch, cancelled, usage
 */
export async function connectControl(
  address: string | InProcessServer,
  options: ConnectControlOptions = {},
): Promise<ControlClient> {
  if (typeof address !== 'string') return ControlClient.open(inProcess(address), { ...options, reconnectMs: 0 });
  const url = address.replace(/^http(s?):\/\/([^/?#]+)\/?$/, 'ws$1://$2/rpc');
  if (typeof process === 'undefined') {
    const { connectBrowser } = await import('./control-client/browser-link.ts');
    return ControlClient.open((signal) => connectBrowser(url, signal, options.connectTimeoutMs), options);
  }
  const { addressOf } = await import('./agent/addresses.ts');
  const route = addressOf(url, {
    timeoutMs: options.connectTimeoutMs ?? 10_000,
    maxMessageBytes: HIGHEST_MAX_MESSAGE_BYTES,
    cwd: options.cwd,
    env: options.env,
    onStderr: options.onStderr,
  });
  const dial: Dial = (signal) => route.dial(signal);
  return ControlClient.open(dial, route.reconnects ? options : { ...options, reconnectMs: 0 });
}

function inProcess(server: InProcessServer): Dial {
  return async () => {
    const { memoryPair } = await import('./transport/memory.ts');
    const [ours, theirs] = memoryPair();
    server.accept(theirs);
    return ours;
  };
}

export {
  ControlClient,
  type ControlOptions,
  type ControlState,
  type CreateOptions,
  type Rpc,
} from './control-client/control.ts';
export type { EventGap, ReadOptions } from './control-client/feed.ts';
export type { CallOptions } from './control-client/rpc-client.ts';
export { ControlSession, type PromptOptions, type TurnHandle, type TurnResult } from './control-client/session.ts';
export type { SessionEvent, SessionEventPayloads, SessionEventType } from './protocol/session-events.ts';
export {
  type HandshakeResult,
  SESSION_RPC_VERSION,
  type SteerResult,
  sessionRpcMethods,
} from './protocol/session-rpc.ts';
export type * from './protocol/session-types.ts';
export { type ErrorName, HandfastError } from './wire/errors.ts';
