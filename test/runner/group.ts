/**
 * Runs files of tests one after the other in this process, each as a suite, so that its hooks are for its tests alone. A file fails
 * that leaves the process other than it was: the next one would depend on it.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, suite } from 'node:test';
import { pathToFileURL } from 'node:url';
import { failingStores } from '../../src/base/failing-stores.ts';
import { bound } from '../preload.ts';

const EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];
const GLOBALS = ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'Date', 'fetch', 'console'];

/** State of the process that files share, by name. */
function state(): Map<string, unknown> {
  return new Map<string, unknown>([
    ['the current folder', process.cwd()],
    [
      'stores that cannot store',
      failingStores()
        .map(({ store }) => store)
        .join(),
    ],
    ...Object.entries(process.env).map(([name, value]) => [`the variable ${name}`, value] as const),
    ...EVENTS.map((event) => [`listeners of ${event}`, process.listenerCount(event)] as const),
    ...GLOBALS.map((name) => [`globalThis.${name}`, Reflect.get(globalThis, name)] as const),
  ]);
}

const files = process.argv.slice(2);
for (const file of files) {
  bound(file);
  await new Promise<void>((ended) => {
    suite(file, async () => {
      const before = state();
      try {
        await import(pathToFileURL(join(process.cwd(), file)).href);
      } finally {
        after(() => {
          ended();
          // A file with a process of its own may leave it as it likes.
          if (files.length === 1) return;
          const now = state();
          const names = [...new Set([...before.keys(), ...now.keys()])];
          const changed = names.filter((name) => before.get(name) !== now.get(name));
          assert.deepEqual(changed, [], `${file} leaves the process other than it was`);
        });
      }
    });
  });
}

// All files have ended.
bound(`one of ${files.join(', ')}`, 1);
