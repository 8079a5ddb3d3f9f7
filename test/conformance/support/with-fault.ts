/**
 * Runs cases against a host with a fault and asserts that exactly the cases fail that must notice it.
 */
import assert from 'node:assert/strict';
import type { Case, Outcome } from '../../../src/conformance/case.ts';
import { type CaseRun, runCases } from '../../../src/conformance/run.ts';
import type { Fault } from './faulty-relay.ts';

/** Wait for a reply that a fault suppresses; every other reply arrives far sooner. */
const SHORT_MS = 1_500;
/** Without a fault nothing is waited for in vain. */
const LONG_MS = 30_000;

/** Returns the longest wait for a reply of a host with this fault. */
export const patienceOf = ({ caught }: Fault): number => (caught.length === 0 ? LONG_MS : SHORT_MS);

/** Asserts that the cases of a fault notice it; without a fault all cases must pass or be skipped. */
export async function notices<C>(cases: readonly Case<C>[], run: CaseRun<C>, { caught }: Fault): Promise<void> {
  const chosen = cases.filter(({ id }) => caught.length === 0 || caught.includes(id));
  const outcomes: Outcome[] = [];
  for await (const outcome of runCases(chosen, run, 60_000)) outcomes.push(outcome);
  const failed = outcomes.filter(({ status }) => status === 'failed');
  assert.deepEqual(
    failed.map(({ id, reason, got }) => (caught.includes(id) ? id : `${id}: ${reason}; ${got}`)).sort(),
    [...caught].sort(),
  );
  for (const { reason, got, transcript = [] } of failed) {
    assert.ok(reason !== undefined && reason !== '');
    assert.ok(transcript.length > 0 || got !== undefined, 'evidence');
  }
}
