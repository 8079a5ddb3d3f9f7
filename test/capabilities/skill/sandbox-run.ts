/** Runs of a sandbox without a host, and the threads and processes that they start: for tests of sandbox places. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { readProcesses } from '../../../src/base/children/process-table.ts';
import { Conversation } from '../../../src/capabilities/skill/sandbox/conversation.ts';
import type { Sandbox } from '../../../src/capabilities/skill/sandbox/sandbox.ts';

/** Returns the threads that this process starts from here, and those that have not ended. */
export function threadsOf(t: TestContext): { readonly all: readonly Worker[]; readonly live: () => readonly Worker[] } {
  const all: Worker[] = [];
  const add = (message: unknown): void => void all.push((message as { worker: Worker }).worker);
  subscribe('worker_threads', add);
  t.after(() => unsubscribe('worker_threads', add));
  return { all, live: () => all.filter(({ threadId }) => threadId !== -1) };
}

/** Returns the running processes that this one has started, with theirs. */
export async function below(root: number): Promise<number[]> {
  const all = await readProcesses();
  const found = [root];
  for (const parent of found) found.push(...all.filter(({ parent: of }) => of === parent).map(({ pid }) => pid));
  return found.slice(1);
}

/** Returns true for the process that starts others for a host. */
export function isLauncher(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('launcher-entry');
  } catch {
    return false;
  }
}

/** Returns the sandboxes of this process that run or wait: the processes that its launchers have started. */
export async function sandboxesNow(): Promise<number[]> {
  const all = await readProcesses();
  const own = await below(process.pid);
  const launchers = own.filter(isLauncher);
  return all.filter(({ pid, parent }) => launchers.includes(parent) && own.includes(pid)).map(({ pid }) => pid);
}

/** Runs code with a separate module, `met`; resolves with the result, when nothing of it runs any more. */
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
  // After its result a run is ended, as a host does.
  const over = new AbortController();
  const end = (): void => over.abort();
  conversation.result.then(end, end);
  await sandbox.run({ files, entry: 'main.js', args: null }, conversation, AbortSignal.any([signal, over.signal]));
  if (!conversation.isOver) conversation.fail(signal.reason);
  return conversation.result;
}
