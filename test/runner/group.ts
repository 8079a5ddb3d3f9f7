/**
 * Runs files of tests one after the other in this process, each as a suite, so that its hooks are for its tests alone. A file fails
 * that leaves the process other than it was: the next one would depend on it.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, suite } from 'node:test';
import { pathToFileURL } from 'node:url';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGPIPE', 'SIGCHLD'];
const EVENTS = [...SIGNALS, 'uncaughtException', 'unhandledRejection', 'uncaughtExceptionMonitor'];
const GLOBALS = ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'Date', 'fetch', 'console'];
const originals = GLOBALS.map((name) => [name, Reflect.get(globalThis, name)] as const);

/** State of the process that files share. */
function state() {
  return {
    folder: process.cwd(),
    variables: { ...process.env },
    listeners: Object.fromEntries(EVENTS.map((event) => [event, process.listenerCount(event)])),
    replaced: originals.flatMap(([name, value]) => (Reflect.get(globalThis, name) === value ? [] : [name])),
  };
}

for (const file of process.argv.slice(2)) {
  await new Promise<void>((ended) => {
    suite(file, async () => {
      const before = state();
      try {
        await import(pathToFileURL(join(process.cwd(), file)).href);
      } finally {
        after(() => {
          ended();
          assert.deepEqual(state(), before, `${file} leaves the process other than it was`);
        });
      }
    });
  });
}
