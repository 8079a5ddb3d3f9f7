/** Skills in QuickJS that use up their memory end with that error, even if the interpreter has none left to report it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QuickJs } from '../../../src/capabilities/skill/sandbox/quickjs.ts';
import { runIn } from './sandbox-run.ts';
import { errorOf } from './support.ts';

const MIB = 1024 ** 2;
const ROUNDS = 5;
const main = (body: string): string => `export default async (args, skill) => { ${body} };`;

const FILLING: Readonly<Record<string, string>> = {
  'promise jobs without end': main('const next = () => Promise.resolve().then(next); return next();'),
  'promises of functions that await each other': main('const f = async () => { await null; await f(); }; return f();'),
  'promises in a list': main('const all = []; for (;;) all.push(Promise.resolve().then(() => {}));'),
  'callbacks of one promise': main('const never = new Promise(() => {}); for (;;) never.then(() => {});'),
  'objects in a promise job': main('await null; const all = []; for (;;) all.push(new Array(1000).fill({}));'),
  'an error that is caught, and a promise that stays open': main(
    'const all = []; try { for (;;) all.push([]); } catch {} return new Promise(() => {});',
  ),
  'texts of a map': main('const all = new Map(); for (let at = 0; ; at++) all.set(at, String(at));'),
  'objects at the top of a module': 'const all = []; for (;;) all.push({}); export default () => 1;',
  'objects at the top of a module that awaits':
    'await null; const all = []; for (;;) all.push({}); export default () => 1;',
};

test('memory that promises and objects use up ends a run as out_of_memory, at every repetition', {
  timeout: 300_000,
}, async (t) => {
  for (const mib of [8, 24]) {
    const sandbox = new QuickJs({ memoryBytes: mib * MIB, warm: 1, maxMessageChars: MIB });
    t.after(() => sandbox.close());
    for (const [what, code] of Object.entries(FILLING)) {
      for (let round = 0; round < ROUNDS; round++) {
        const { code: ended, message } = await errorOf(runIn(sandbox, code));
        assert.equal(ended, 'out_of_memory', `${what}, ${mib} MiB: ${message}`);
      }
    }
  }
});

test('errors of a skill with memory left are its own', { timeout: 120_000 }, async (t) => {
  // Less than the initial memory of the interpreter.
  const sandbox = new QuickJs({ memoryBytes: 8 * MIB, warm: 1, maxMessageChars: MIB });
  t.after(() => sandbox.close());
  for (const [code, said] of [
    [main('throw null;'), 'null'],
    [main('return new Promise(() => {});'), 'its promise never settles'],
    // Refused once, and free again; the error is that of the skill.
    [
      main(`let all = []; try { for (;;) all.push({}); } catch { all = []; } throw new Error('what it says');`),
      'what it says',
    ],
  ] as const) {
    const { code: ended, message } = await errorOf(runIn(sandbox, code));
    assert.deepEqual([ended, message], ['skill_error', said]);
  }
  const free = main('let all = []; try { for (;;) all.push({}); } catch { all = []; } return all.length;');
  assert.equal(await runIn(sandbox, free), 0);
});
