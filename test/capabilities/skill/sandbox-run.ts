/** Runs of a sandbox without a host, and what they start: for tests of the places that sandboxes keep. */
import type { ChildProcess } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { TestContext } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { Conversation } from '../../../src/capabilities/skill/sandbox/conversation.ts';
import type { Sandbox } from '../../../src/capabilities/skill/sandbox/sandbox.ts';

/** What this process started. */
export interface Started<Each> {
  readonly all: readonly Each[];
  /** Those that have not ended. */
  readonly live: () => readonly Each[];
}

function startedOn<Each>(
  t: TestContext,
  channel: string,
  of: (message: unknown) => Each,
  isLive: (each: Each) => boolean,
): Started<Each> {
  const all: Each[] = [];
  const add = (message: unknown): void => void all.push(of(message));
  subscribe(channel, add);
  t.after(() => unsubscribe(channel, add));
  return { all, live: () => all.filter(isLive) };
}

/** The threads that this process starts from here. */
export const threadsOf = (t: TestContext): Started<Worker> =>
  startedOn(
    t,
    'worker_threads',
    (message) => (message as { worker: Worker }).worker,
    ({ threadId }) => threadId !== -1,
  );

/** The processes that this process starts from here. */
export const processesOf = (t: TestContext): Started<ChildProcess> =>
  startedOn(
    t,
    'child_process',
    (message) => (message as { process: ChildProcess }).process,
    ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
  );

/** Runs code that has a module of its own, `met`; the result, when nothing of it runs any more. */
export async function runIn(
  sandbox: Sandbox,
  body: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<unknown> {
  const conversation = new Conversation(
    { call: () => new Promise(() => {}), event: () => undefined },
    { maxMessageChars: 1024 ** 2, maxPrintedChars: 1000, maxCalls: 10, maxEvents: 10 },
  );
  const files = { 'main.js': `import { met } from './met.js'; ${body}`, 'met.js': 'export const met = [];' };
  // Behind its result a run is ended, as a host does.
  const over = new AbortController();
  const end = (): void => over.abort();
  conversation.result.then(end, end);
  await sandbox.run({ files, entry: 'main.js', args: null }, conversation, AbortSignal.any([signal, over.signal]));
  if (!conversation.isOver) conversation.fail(signal.reason);
  return conversation.result;
}
