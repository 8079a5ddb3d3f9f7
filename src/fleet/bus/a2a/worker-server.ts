/**
 * A worker as an A2A 1.0 agent: its card, JSON-RPC with streaming, tasks that outlive the process, and the fleet protocol as
 * an extension for clients that name it.
 *
 * `a2aAgent` makes a handler for `node:http`, which a server may mount; `serveA2a` gives it a port. The agent itself, in
 * `worker-agent.ts`, is loaded with the SDK. Only the process that owns the executor makes it.
 * @see docs/a2a.md
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import type { Timer } from '../../../base/timer-queue.ts';
import { type HttpListener, listenHttp } from '../plain/http-listener.ts';
import type { ServerAccess } from '../plain/http-server.ts';
import type { WorkerPort } from '../reply-channel.ts';
import type { PartialState } from './partial-state.ts';

export interface A2aAgentOptions extends ServerAccess {
  /** Address others reach the agent at, without a path; may change once the port is known. */
  readonly url: () => string;
  /** Path everything is below, where a server mounts it. Default: none. */
  readonly base?: string;
  /** Database of its tasks. This process's alone while it runs. */
  readonly file: string;
  /** Name on the card. Default: the worker's agent id. */
  readonly name?: string;
  readonly description?: string;
  /** Version of the program, for the card. */
  readonly version?: string;
  /** The state of unfinished work for clients without the fleet protocol. Default `failed`. */
  readonly partialState?: PartialState;
  /** Retention of a task that has ended, milliseconds. Default 7 days. */
  readonly retainMs?: number;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
  /** Expiries of questions. Default: a timer of the process. */
  readonly timer?: Timer;
}

export interface A2aAgent {
  /** Responds to any request: 404 for a path that is not the agent's. Never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Refuses new requests, detaches from the worker, ends open streams and closes the store. Idempotent, never rejects. */
  close(): Promise<void>;
}

/**
 * Makes the agent. Fails with `not_configured` when the SDK is not installed, and as its store does: `journal_locked`,
 * `journal_corrupt`, `disk_full`, `runtime_error`.
 */
export async function a2aAgent(worker: WorkerPort, options: A2aAgentOptions): Promise<A2aAgent> {
  const { WorkerAgent, loadA2aServer } = await import('./worker-agent.ts');
  const agent = new WorkerAgent(worker, options, await loadA2aServer());
  agent.recover();
  return agent;
}

export interface ServedA2a {
  readonly address: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Serves the agent on a separate port. Fails as {@link a2aAgent} and `listenHttp` do. */
export async function serveA2a(
  worker: WorkerPort,
  options: Omit<A2aAgentOptions, 'url' | 'base'> & {
    readonly host?: string;
    /** 0: any free one. */
    readonly port: number;
    /** Addresses and networks of trusted proxies: the address they forward is believed. Default: none. */
    readonly trustedProxies?: readonly string[];
    /** Address for the card, where it differs from the port's address. */
    readonly url?: () => string;
  },
): Promise<ServedA2a> {
  let listener: HttpListener | undefined;
  const { host, port, trustedProxies, url = () => listener?.address ?? '', ...rest } = options;
  const agent = await a2aAgent(worker, { ...rest, url });
  try {
    listener = await listenHttp({
      host,
      port,
      trustedProxies,
      hasTokens: options.auth?.hasTokens === true,
      handle: (request, response) => void agent.handle(request, response),
    });
  } catch (thrown) {
    await agent.close();
    throw thrown;
  }
  const { address, port: bound, close } = listener;
  return {
    address,
    port: bound,
    async close() {
      await agent.close();
      await close();
    },
  };
}
