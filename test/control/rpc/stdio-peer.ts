/**
 * `stdio-control.ts` as a child, and a peer on its pipes that writes any bytes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { within } from '../../contract/recorder.ts';
import { overStdio } from '../../support/carriers.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';

const program = fileURLToPath(new URL('./stdio-control.ts', import.meta.url));

const children: ChildProcess[] = [];
// With any outcome of a test, its children end with it.
after(() => {
  for (const child of children) child.kill('SIGKILL');
});

export interface Started {
  readonly child: ChildProcess;
  readonly peer: Peer;
  /** The output of the child there so far. */
  readonly stderr: () => string;
  /** Resolves with the exit code. */
  exit(): Promise<number | null>;
}

/** Starts a child with these words. */
export function startControl(...words: string[]): Started {
  const child = spawn(process.execPath, [program, ...words], { stdio: 'pipe' });
  // With any outcome of the test, the child ends with it.
  children.push(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk;
  });
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, peer: overStdio(child), stderr: () => stderr, exit: () => within(closed, 'the process to exit') };
}

export const requestOf = (id: unknown, method: string, params?: unknown): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });

export const pingOf = (id: unknown): string => requestOf(id, 'system.ping');

/** Returns the next answer with this id. */
export async function answerOf(peer: Peer, id: unknown): Promise<Message> {
  for (;;) {
    const message = await peer.next();
    if (message.method === undefined && message.id === id) return message;
  }
}

/** Returns type and reason of every event so far. */
export const typesOf = (peer: Peer): unknown[] =>
  peer.messages.filter(({ method }) => method === 'event').map(({ params }) => [params.type, params.payload.reason]);
