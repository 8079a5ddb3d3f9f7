import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type BlockedInput,
  blockedPolicyOf,
  blockedStep,
  DEFAULT_BLOCKED_POLICY as policy,
} from '../../src/fleet/blocked-policy.ts';
import fc from '../support/properties.ts';

const refused = (changes: Partial<BlockedInput>): BlockedInput => ({
  code: 'busy',
  eligible_untried_workers: 0,
  reroutes_done: 0,
  retries_done: 0,
  seconds_to_deadline: null,
  ...changes,
});

test('the delay of a retry is spread by a fifth either way, and not at all without jitter', () => {
  assert.deepEqual(blockedStep(policy, refused({})), { action: 'retry', delay_s: 30 });
  assert.deepEqual(blockedStep(policy, refused({ jitter: 0 })), { action: 'retry', delay_s: 24 });
  assert.deepEqual(blockedStep(policy, refused({ jitter: 1 })), { action: 'retry', delay_s: 36 });
});

test('a retry is never sooner than the worker asked for', () => {
  assert.deepEqual(blockedStep(policy, refused({ retry_after_s: 90 })), { action: 'retry', delay_s: 90 });
  assert.deepEqual(blockedStep(policy, refused({ retry_after_s: 5 })), { action: 'retry', delay_s: 30 });
  assert.deepEqual(blockedStep(policy, refused({ retry_after_s: 90, seconds_to_deadline: 100 })), { action: 'alert' });
});

test('a retry is possible to the second that leaves enough time to be taken', () => {
  assert.equal(blockedStep(policy, refused({ seconds_to_deadline: 60 })).action, 'retry');
  assert.equal(blockedStep(policy, refused({ seconds_to_deadline: 59 })).action, 'alert');
});

test('the last delay of the row repeats when more retries are allowed than there are delays', () => {
  const patient = blockedPolicyOf({ max_retries: 9 });
  assert.deepEqual(blockedStep(patient, refused({ retries_done: 8 })), { action: 'retry', delay_s: 480 });
});

test('a code that is the name of an inherited member is an unknown code', () => {
  for (const code of ['constructor', 'toString', '__proto__', '']) {
    assert.deepEqual(blockedStep(policy, refused({ code, eligible_untried_workers: 5 })), { action: 'alert' });
  }
});

test('a configuration changes single rows of the table and leaves the others', () => {
  const changed = blockedPolicyOf({ table: new Map([['budget_too_small', ['reroute']]]), max_retries: undefined });
  assert.deepEqual(blockedStep(changed, refused({ code: 'budget_too_small', eligible_untried_workers: 1 })), {
    action: 'reroute',
  });
  assert.deepEqual(blockedStep(changed, refused({})), { action: 'retry', delay_s: 30 });
});

test('a row that ends without a possible step tells an operator', () => {
  const changed = blockedPolicyOf({ table: new Map([['busy', ['reroute']]]) });
  assert.deepEqual(blockedStep(changed, refused({})), { action: 'alert' });
});

test('every refusal ends: rerouting and retrying come to an end for any sequence of codes', () => {
  const codes = fc.constantFrom(...policy.table.keys(), 'something_new');
  const property = fc.property(
    fc.array(codes, { minLength: 8, maxLength: 20 }),
    fc.double({ min: 0, max: 1 }),
    (sequence, jitter) => {
      let [reroutes_done, retries_done] = [0, 0];
      for (const code of sequence.filter((each) => each !== 'in_flight')) {
        const { action } = blockedStep(
          policy,
          refused({ code, eligible_untried_workers: 9, reroutes_done, retries_done, jitter }),
        );
        if (action === 'reroute') reroutes_done++;
        else if (action === 'retry') retries_done++;
        else return true;
      }
      return reroutes_done <= policy.max_reroutes && retries_done <= policy.max_retries;
    },
  );
  fc.assert(property, { numRuns: 200 });
});
