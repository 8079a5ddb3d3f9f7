/**
 * Hundreds of small fleets, each with its own faults: a seed that breaks a rule is in the failure. Also mutations of
 * the shipped code, each of which some of these fleets must find.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { tiny } from '../../simulation/setting.ts';
import { simulateHandshake } from '../../simulation/simulation.ts';
import type { Mutation } from './mutate.ts';

const here = dirname(fileURLToPath(import.meta.url));
const run = promisify(execFile);

test('no rule is broken in three hundred small fleets', async () => {
  for (let seed = 1; seed <= 300; seed += 1) await simulateHandshake(tiny(seed));
});

/** Parts of the shipped code with a mistake in them, and the rule that finds it. */
const MUTATIONS: readonly (Mutation & { readonly what: string; readonly rule: RegExp; readonly seeds: number })[] = [
  {
    what: 'a worker forgets which attempts it declined',
    file: 'fleet/worker/admission.ts',
    from: 'if (denial !== undefined) return denial.reason ?? UNKNOWN;',
    to: '',
    rule: /was declined by w-\d+ and is not accepted later/,
    seeds: 40,
  },
  {
    what: 'a worker does not remember that it called an attempt unknown',
    file: 'fleet/worker/worker.ts',
    from: 'await this.#declined.add(task_id, { attempt, digest: null, reason: null });',
    to: '',
    // The worker runs the attempt all the same: work is done twice, or its result gives no credit and is in no row.
    rule: /runs once, unless an operator retries it|the result of attempt \d+ is on disk before it is confirmed/,
    seeds: 60,
  },
  {
    what: 'a worker runs a task before that is on disk',
    file: 'fleet/worker/task-run.ts',
    from: 'await this.#host.journal.start(',
    to: 'void this.#host.journal.start(',
    rule: /marked as started on disk before it runs/,
    seeds: 3,
  },
  {
    what: 'a worker never stops a run at its budget',
    file: 'fleet/worker/task-run.ts',
    from: 'if (this.#turn === undefined) return;',
    to: 'return;',
    rule: /no run spends more than its budget/,
    seeds: 6,
  },
  {
    what: 'the outbox drops a result that was not confirmed',
    file: 'fleet/worker/outbox.ts',
    from: 'item.failures += 1;',
    to: 'return void lane.waiting.delete(keyOf(item.taskId, item.attempt));',
    rule: /the result of attempt \d+ never left/,
    seeds: 12,
  },
  {
    what: 'a restarted worker reports nothing',
    file: 'fleet/worker/recovery.ts',
    from: 'const tasks = options.journal.unfinished();',
    to: 'const tasks = options.journal.unfinished().slice(0, 0);',
    rule: /was started and is not declined|is started at w-\d+ at the end/,
    seeds: 6,
  },
  {
    what: 'a dispatch leaves before its row is on disk',
    file: 'fleet/orchestrator/dispatcher.ts',
    from: 'await registry.save(tracked);',
    to: 'void registry.save(tracked);',
    rule: /the row is on disk before its dispatch leaves/,
    seeds: 3,
  },
  {
    what: 'a result is confirmed before it is stored',
    file: 'fleet/orchestrator/peer-event-handler.ts',
    from: 'await registry.save(tracked);',
    to: '',
    rule: /is on disk before it is confirmed/,
    seeds: 3,
  },
  {
    what: 'a second result replaces the first',
    file: 'fleet/orchestrator/task-result.ts',
    from: 'if (record.ended_at !== null || isReported(tried)) return undefined;',
    to: "if (record.ended_at !== null) return { outcome: 'changed', record: { ...record, result: event.result } };",
    rule: /one result is accepted, once/,
    seeds: 12,
  },
  {
    what: 'the fence: a result of an old attempt ends a newer one that was accepted',
    file: 'fleet/orchestrator/task-result.ts',
    from: "case 'running':\n      if (!newest) return undefined;",
    to: "case 'running':",
    rule: /a result with the old fence \d+ is never applied over attempt \d+/,
    seeds: 40,
  },
  {
    what: 'the fence: what a second run may harm is retried after a loss',
    file: 'fleet/orchestrator/attempt-failures.ts',
    from: '} else if (retry_safe && record.retries',
    to: '} else if (record.retries',
    rule: /runs once, unless an operator retries it/,
    seeds: 4,
  },
  {
    what: 'a lease ends early',
    file: 'fleet/orchestrator/lease-timers.ts',
    from: 'this.#ends.set(id, now + leaseTtlMs);',
    to: 'this.#ends.set(id, now + leaseTtlMs / 4);',
    rule: /a lease holds while progress comes/,
    seeds: 6,
  },
  {
    what: 'a lease never ends',
    file: 'fleet/orchestrator/lease-timers.ts',
    from: 'return this.#options.expired(tracked);',
    to: 'return;',
    rule: /it stays with w-\d+, which has been silent/,
    seeds: 12,
  },
  {
    what: 'the load of a worker never falls',
    file: 'fleet/orchestrator/peers.ts',
    from: 'entry.tasks.delete(taskId);',
    to: '',
    rule: /is listed with a task that it does not have/,
    seeds: 3,
  },
  {
    what: 'a task is parked without a reason',
    file: 'fleet/orchestrator/attempt-failures.ts',
    from: "this.#options.registry.apply(tracked, { type: 'parked', reason });",
    to: "this.#options.registry.apply(tracked, { type: 'parked', reason: '' });",
    rule: /a parked task says why/,
    seeds: 4,
  },
  {
    what: 'the queue gives the last task its turn first',
    file: 'fleet/queue.ts',
    from: 'return left.turnMs === right.turnMs ? left.number < right.number : left.turnMs < right.turnMs;',
    to: 'return left.turnMs > right.turnMs;',
    rule: /waits for the same workers, and it was its turn/,
    seeds: 40,
  },
];

for (const { what, rule, seeds, ...mutation } of MUTATIONS) {
  test(`is found out: ${what}`, async () => {
    const args = [
      '-C',
      'handfast-source',
      '--import',
      join(here, 'mutate.ts'),
      join(here, 'some-seeds.ts'),
      `${seeds}`,
    ];
    const env = { ...process.env, MUTATION: JSON.stringify(mutation) };
    const { stdout } = await run(process.execPath, args, { env, timeout: 240_000 });
    assert.match(stdout, rule);
  });
}
