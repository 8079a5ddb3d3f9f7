/** The vectors of token accounting: recorded outputs of programs, and what they come to. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { accountUsage } from '../../src/fleet/executors/usage.ts';

const folder = join(import.meta.dirname, '..', 'vectors', 'fleet');
const files = readdirSync(folder).filter((name) => name.startsWith('usage.'));

test('there are vectors of token accounting', () => assert.ok(files.length >= 6));

for (const name of files) {
  test(`usage vector ${name}`, () => {
    const { input, expect } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    assert.deepEqual(accountUsage(input.executor, input.stdout, input.previous_cumulative), expect);
  });
}
