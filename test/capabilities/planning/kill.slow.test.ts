/** Agents and their host are killed at random: see `kill/proof.ts`. `bench/planning-kill.ts` runs a thousand rounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prove } from './kill/proof.ts';

test('under kill -9 of agents and host no task is claimed twice and no update is lost', {
  timeout: 300_000,
}, async () => {
  const report = await prove({ rounds: 15, agents: 4, tasks: 120, leaseMs: 1_500, workMs: 20, everyMs: 150 });
  assert.equal(report.hostKills + report.agentKills, 15);
  assert.ok(report.claims >= 120 && report.updates > 0, JSON.stringify(report));
});
