import assert from 'node:assert/strict';
import { test } from 'node:test';
import { possibleEscapes } from '../../../src/base/children/descendants.ts';
import { type ProcessEntry, parsePs } from '../../../src/base/children/process-table.ts';

const entry = (pid: number, parent: number, session: number, started: number): ProcessEntry => ({
  pid,
  parent,
  group: session,
  session,
  started,
});

test('what may be a descendant without a trace: young, in a young session, and given to an ancestor of ours', () => {
  const self = 100;
  const all = [
    entry(1, 0, 1, 1),
    entry(2, 0, 0, 1),
    entry(50, 1, 50, 5),
    entry(60, 50, 50, 6),
    entry(self, 60, 60, 10),
    entry(200, 1, 199, 30),
    entry(201, 60, 201, 31),
    // Processes older than the child, of an old session, of a parent that is no ancestor, of this process's children,
    // and a thread of the kernel.
    entry(300, 1, 300, 20),
    entry(301, 60, 60, 32),
    entry(302, 201, 302, 33),
    entry(303, self, 303, 34),
    entry(304, 2, 0, 35),
  ];
  const found = possibleEscapes(all, self, 25).map(({ pid }) => pid);
  assert.deepEqual(found, [200, 201]);
});

test('the output of ps is read, without zombies and without what is no process', () => {
  const output = [
    '    1     0     1 Ss   Sun Nov 22 18:00:00 2026',
    ' 4711     1  4711 S+   Sun Nov  1 08:05:09 2026',
    ' 4712  4711  4711 Z    Sun Nov 22 18:00:01 2026',
    '',
    'ps: something else',
  ];
  const seconds = (text: string): number => Date.parse(text) / 1000;
  assert.deepEqual(parsePs(output.join('\n')), [
    { pid: 1, parent: 0, group: 1, session: Number.NaN, started: seconds('2026-11-22T18:00:00') },
    { pid: 4711, parent: 1, group: 4711, session: Number.NaN, started: seconds('2026-11-01T08:05:09') },
  ]);
});
