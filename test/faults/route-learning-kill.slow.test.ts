/**
 * `kill -9` of an orchestrator with `routing.learn: true`, a real process, while tasks are in progress: every attempt
 * was learned from once, and `route explain` prints the same before and after.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FleetClient } from '../../src/bridge/fleet-client.ts';
import { connect } from '../../src/control-client/connect.ts';
import { type Command, User } from '../cli/command.ts';
import { newRepository } from '../cli/fleet-bench.ts';

const ROUNDS = 4;
const TASKS_PER_ROUND = 10;
const PATIENCE_MS = 60_000;

interface Up {
  readonly command: Command;
  readonly fleet: FleetClient;
  close(): Promise<void>;
}

async function start(user: User, file: string): Promise<Up> {
  const command = user.start(['fleet', 'up', file, '--json']);
  await command.says('"ready":true');
  const { url, token_file } = JSON.parse(command.stdout.slice(0, command.stdout.indexOf('\n')));
  const control = await connect(url, { token: readFileSync(token_file, 'utf8').trim() });
  return { command, fleet: new FleetClient(control), close: () => control.close() };
}

/** Returns the choice that learning would make now, once both workers have announced themselves. */
async function learnedBy(fleet: FleetClient) {
  for (const until = performance.now() + PATIENCE_MS; performance.now() < until; await pause(50)) {
    const { explanation, table } = await fleet.explain({ brief: 'anything', access: 'read' });
    if (explanation.learned !== undefined) return { learned: explanation.learned, table };
  }
  throw new Error('learning has nothing to choose among');
}

test('what routing learned survives kill -9 while tasks are on their way, each attempt once', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  for (const id of ['good', 'bad']) newRepository(join(user.cwd, id));
  // Half of the tasks read it, so that every other one fails at this worker, and its circuit breaker stays closed.
  writeFileSync(join(user.cwd, 'good', 'only-here.txt'), 'x\n');
  const file = user.write(
    'fleet.yaml',
    `name: learning
listen: http://127.0.0.1:0
join_grace_s: 1
routing: { learn: true }
workers:
  - { id: good, executor: rehearsal, repo: good, overhead_tokens: 0 }
  - { id: bad, executor: rehearsal, repo: bad, overhead_tokens: 0 }
`,
  );
  let up = await start(user, file);
  const killAndStart = async () => {
    const exited = up.command.ended();
    up.command.child.kill('SIGKILL');
    await exited;
    await up.close();
    up = await start(user, file);
  };
  for (let round = 0; round < ROUNDS; round++) {
    const specs = Array.from({ length: TASKS_PER_ROUND }, (_, at) => ({
      task_id: `task-${round}-${at}`,
      brief: at % 2 === 0 ? 'read only-here.txt' : 'wait 20 ms',
      access: 'read' as const,
    }));
    await up.fleet.submitBatch(specs);
    // Another moment in each round: with most tasks queued, under way, or ended.
    await pause(round * 60);
    await killAndStart();
    for (const { task_id } of specs) await up.fleet.ended(task_id, AbortSignal.timeout(PATIENCE_MS));
  }

  const expected = { good: { attempts: 0, succeeded: 0 }, bad: { attempts: 0, succeeded: 0 } };
  for (const { attempts } of await up.fleet.select({ limit: 1_000 })) {
    for (const { worker, outcome } of attempts) {
      // A refusal before the start is evidence of nothing.
      if (!['done', 'error', 'lost'].includes(outcome ?? '')) continue;
      expected[worker as 'good' | 'bad'].attempts += 1;
      if (outcome === 'done') expected[worker as 'good' | 'bad'].succeeded += 1;
    }
  }
  assert.ok(expected.good.attempts + expected.bad.attempts >= ROUNDS * TASKS_PER_ROUND, JSON.stringify(expected));
  // The score's own recent outcomes start with the process. Without them the workers are nearly equal: learning chooses.
  await killAndStart();
  const before = await learnedBy(up.fleet);
  assert.deepEqual({ ...before.learned.outcomes }, expected);
  assert.match(before.table, /^learned +probability +attempts +succeeded$/m);

  await killAndStart();
  const after = await learnedBy(up.fleet);
  assert.deepEqual(after.learned.probabilities, before.learned.probabilities);
  assert.deepEqual(after.learned.outcomes, before.learned.outcomes);
  // A task of before may have been routed while one of the workers was still on its way.
  await up.fleet.submitBatch([{ task_id: 'last', brief: 'wait 20 ms', access: 'read' }]);
  await up.fleet.ended('last', AbortSignal.timeout(PATIENCE_MS));
  const { explanation } = await up.fleet.get('last');
  assert.match(explanation?.sentence ?? '', /learning chooses among nearly equal workers/);
  await up.close();
});
