/**
 * Addresses of hosts, and dialling them. Transports are loaded when their address is used, so that an agent on stdio
 * never loads a WebSocket library.
 */
import { onceSucceeded } from '../base/once-succeeded.ts';
import type { Link } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';

export interface DialOptions {
  /** Time for reaching the host, in milliseconds. */
  readonly timeoutMs: number;
  readonly maxMessageBytes: number;
  /** For `stdio:` addresses: working directory and environment additions of the child. */
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** For `stdio:` addresses: receives the lines that the child writes to its stderr. */
  readonly onStderr?: (line: string) => void;
}

/** A parsed address: a function that opens a link, and whether dialling again reaches the same host. */
export interface Route {
  readonly reconnects: boolean;
  dial(signal: AbortSignal | undefined): Promise<Link>;
}

// Modules that are loaded when they are first needed. Asking the loader again costs as much as a small round trip, which
// agents that connect often would pay each time.
const http = onceSucceeded(() => import('../transport/http/http-client.ts'));
const webSocket = onceSucceeded(() => import('../transport/websocket.ts'));
const socket = onceSucceeded(() => import('../transport/socket.ts'));
const stdio = onceSucceeded(() => import('../transport/stdio.ts'));
const subprocess = onceSucceeded(() => import('../transport/subprocess.ts'));

/** The forms of an address, for messages and help texts. */
export const ADDRESS_FORMS =
  'http(s)://host:port, ws(s)://host:port/ws, tcp://host:port, unix:///path or stdio:COMMAND';

/**
 * Parses an address. Throws `usage` for a form it does not know.
 *
 * `stdio:` starts the command as a child; a new child is a new host, so such links cannot be resumed. Without a command it is
 * the other end of this process's own pipes, as programs have it that a host starts as its subagents.
 */
export function addressOf(address: string, options: DialOptions): Route {
  const { timeoutMs, maxMessageBytes } = options;
  const scheme = /^([a-z]+):/.exec(address)?.[1];
  switch (scheme) {
    case 'http':
    case 'https':
      return {
        reconnects: true,
        dial: async (signal) => (await http()).connectHttp(address, { timeoutMs, maxMessageBytes, signal }),
      };
    case 'ws':
    case 'wss':
      return {
        reconnects: true,
        dial: async (signal) => (await webSocket()).connectWebSocket(address, { timeoutMs, maxMessageBytes, signal }),
      };
    case 'tcp':
      return {
        reconnects: true,
        dial: async (signal) => (await socket()).connectTcp(address, { timeoutMs, maxMessageBytes, signal }),
      };
    case 'unix':
      return {
        reconnects: true,
        dial: async (signal) => (await socket()).connectUnix(address, { timeoutMs, maxMessageBytes, signal }),
      };
    case 'stdio':
      return {
        reconnects: false,
        dial: async () => {
          const line = address.slice('stdio:'.length);
          if (line.trim() === '') return (await stdio()).stdioLink({ maxMessageBytes });
          const { splitCommand, spawnLink } = await subprocess();
          const [command = '', ...args] = splitCommand(line);
          const { cwd, env, onStderr } = options;
          return spawnLink({ command, args, cwd, env, onStderr, maxMessageBytes });
        },
      };
    default:
      throw fail('usage', `expected ${ADDRESS_FORMS}, got ${JSON.stringify(address)}`);
  }
}
