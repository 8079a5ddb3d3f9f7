/**
 * The interface of every contender of the benchmark: serve an `echo` and a `flood` in one process, call them from
 * another.
 *
 * `server-process.ts` calls `serve`, `client-process.ts` calls `connect`; the workloads only see a {@link Session}. A
 * peer implements this with its documented API and its default validation, so that the numbers are those of its users.
 */
import { fileURLToPath } from 'node:url';

export const transportNames = ['memory', 'stdio', 'tcp', 'websocket', 'http'] as const;
export type TransportName = (typeof transportNames)[number];

/** The target of a session. On `stdio` the contender starts the server itself, as its users do. */
export type Target =
  | { readonly transport: 'memory' }
  | { readonly transport: 'stdio'; readonly command: string; readonly args: readonly string[] }
  | { readonly transport: 'tcp'; readonly port: number }
  | { readonly transport: 'websocket'; readonly port: number }
  | { readonly transport: 'http'; readonly port: number };

/** One open session: the handshake is done. */
export interface Session {
  /** Calls `echo` with `{text, n}`; resolves with the returned text. */
  echo(text: string, n: number): Promise<string>;
  /**
   * Calls `flood`: `count` events, then the reply. `seen` gets the index each event carries, as it arrives; the promise
   * resolves with the reply. The workload checks order and number.
   */
  flood(count: number, seen: (index: number) => void): Promise<void>;
  /** Ends the session and resolves when its link has ended. */
  close(): Promise<void>;
}

/** A running server side. */
export interface Served {
  /** The loopback port, on transports that have one. */
  readonly port?: number;
}

/** The start of a stdio server for the `start` workload, and the sign that it is ready. */
export interface StartCommand {
  /** Arguments of `node`. */
  readonly args: readonly string[];
  /** Text that is written to its input at once: the first message of the protocol. */
  readonly opening: string;
  /** A part of the answer to it. */
  readonly answers: string;
}

export interface Contender {
  /** `bare`, `limit`, `handfast…`, or the name of the npm package. */
  readonly name: string;
  readonly transports: readonly TransportName[];
  /** Starts serving. On `stdio` it serves the pipes of this process. Never called for `memory`. */
  serve(transport: TransportName): Promise<Served>;
  /** Opens a session with its handshake. On `memory` it makes both ends. */
  connect(target: Target): Promise<Session>;
  /** For the `start` workload. */
  readonly start?: StartCommand;
  /** For the `frame` workload: cuts lines out of chunks and gives their texts to `onText`. */
  scanner?(onText: (text: string) => void): Promise<(chunk: Buffer) => void>;
}

export const LOOPBACK = '127.0.0.1';
/** Largest message any contender has to take: the 1 MiB payload, its envelope and its escapes. */
export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/** Returns the text of event number `index`; all contenders send the same. */
export function eventText(index: number): string {
  return `step ${index} of the work is done`;
}

/** Returns the index in a text of {@link eventText}. */
export function eventIndex(text: string): number {
  return Number.parseInt(text.slice(5), 10);
}

/**
 * Returns the path of a file in `children/`, the servers of the `start` workload: plain JavaScript, so that no time
 * goes into types.
 */
export function childFile(name: string): string {
  return fileURLToPath(new URL(`../children/${name}`, import.meta.url));
}

/** Returns the opening of JSON-RPC protocols on stdio, one line. */
export function initializeLine(params: object): string {
  return `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`;
}

/** Refuses a combination that a contender does not list in `transports`. */
export function unsupported(name: string, transport: TransportName): never {
  throw new Error(`${name} has no ${transport} transport here`);
}
