/** Runs the published vectors of the blocked policy. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  type BlockedAction,
  type BlockedInput,
  blockedStep,
  DEFAULT_BLOCKED_POLICY,
} from '../../src/fleet/blocked-policy.ts';

const file = new URL('../vectors/fleet/blocked_policy.default.json', import.meta.url);
const { rows } = JSON.parse(readFileSync(file, 'utf8')) as { rows: { input: BlockedInput; expect: BlockedAction }[] };

test('every refusal of the vectors gets its step and its delay', () => {
  assert.equal(rows.length, 17);
  for (const { input, expect } of rows) {
    assert.deepEqual(blockedStep(DEFAULT_BLOCKED_POLICY, input), expect, JSON.stringify(input));
  }
});
