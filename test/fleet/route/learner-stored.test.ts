/**
 * Learned routing, after its process ended at any point between its own writes and those of the task.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Pairs } from '../../../src/base/bandits/stored.ts';
import { RouteLearner } from '../../../src/fleet/route/learner.ts';
import type { Ranked } from '../../../src/fleet/route/profile.ts';
import { openStateDatabase } from '../../../src/host/store/database.ts';
import { fail } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const ranking = ['a', 'b', 'c'].map((agent_id) => ({ agent_id, score: 500, components: {} }) as unknown as Ranked);
const alike = () => true;
const stored = async () => {};
/** Points at which a process ends, in the order of its life. */
const POINTS = ['nowhere', 'before it is stored', 'before the record', 'after the record'] as const;

/** Decides and learns of 60 attempts; in each, the process ends twice where `endsAt` says. */
async function run(open: () => { pairs: Pairs; close(): void }, endsAt: (round: number) => (typeof POINTS)[number]) {
  let { pairs, close } = open();
  let learner = new RouteLearner('seed', pairs);
  const restart = () => {
    close();
    ({ pairs, close } = open());
    learner = new RouteLearner('seed', pairs);
  };
  /** Makes a change of a task until its record is stored, as an orchestrator does that is started again. */
  const durably = async (taskId: string, point: (typeof POINTS)[number], change: () => void) => {
    change();
    if (point === 'before it is stored') {
      restart();
      change();
    }
    if (point === 'before the record') {
      await assert.rejects(
        learner.before(taskId, () => Promise.reject(new Error('killed'))),
        { message: 'killed' },
      );
      restart();
      change();
    }
    await learner.before(taskId, stored);
    if (point === 'after the record') restart();
  };
  const decisions: unknown[] = [];
  for (let round = 0; round < 60; round++) {
    const attempt = { taskId: `t-${round}`, attempt: 1 };
    let decided: ReturnType<RouteLearner['choose']>;
    await durably(attempt.taskId, endsAt(round), () => {
      decided = learner.choose(ranking, alike, attempt);
    });
    decisions.push(decided);
    const { chosen = '' } = decided ?? {};
    await durably(attempt.taskId, endsAt(round + 1), () =>
      learner.learn(chosen, chosen === 'b' || round % 3 === 0, attempt),
    );
  }
  restart();
  learner.retain(() => false);
  const last = learner.choose(ranking, alike);
  await pairs.atomically(() => {});
  const after = Array.from({ length: 20 }, () => learner.choose(ranking, alike));
  close();
  return { decisions, last, after };
}

test('a run whose process ends at any point, again and again, is the run without', async (t) => {
  const opened = (file: string) => () => {
    const database = openStateDatabase({ file });
    return { pairs: database.plugin('routing', {}).shared, close: () => database.close() };
  };
  const folder = temporaryFolder(t);
  const calm = await run(opened(join(folder, 'calm.db')), () => 'nowhere');
  assert.equal(new Set(calm.decisions.map((one) => (one as { chosen: string }).chosen)).size, 3);
  const killed = await run(opened(join(folder, 'killed.db')), (round) => POINTS[round % POINTS.length]!);
  assert.deepEqual(killed, calm);
  assert.ok(existsSync(join(folder, 'killed.db')));
});

test('what could not be stored keeps the record back, and is stored with the next', async () => {
  const database = openStateDatabase({ file: ':memory:' });
  const { shared } = database.plugin('routing', {});
  let full = true;
  const pairs: Pairs = {
    get: (key) => shared.get(key),
    list: (page) => shared.list(page),
    set: (key, value) => shared.set(key, value),
    delete: (key) => shared.delete(key),
    atomically: (work) => (full ? Promise.reject(fail('disk_full', 'no room')) : shared.atomically(work)),
  };
  const learner = new RouteLearner('seed', pairs);
  learner.choose(ranking, alike, { taskId: 't', attempt: 1 });
  learner.learn('a', true, { taskId: 't', attempt: 1 });
  let records = 0;
  const put = async () => {
    records += 1;
  };
  await assert.rejects(learner.before('t', put), { code: 'disk_full' });
  assert.equal(records, 0);
  full = false;
  await learner.before('t', put);
  assert.equal(records, 1);
  const again = new RouteLearner('seed', pairs);
  assert.deepEqual(again.preview(ranking, alike), learner.preview(ranking, alike));
  assert.deepEqual(again.preview(ranking, alike)?.outcomes?.a, { attempts: 1, succeeded: 1 });
  database.close();
});

test('an outcome of one attempt counts once, and that of the next one counts again', async () => {
  const database = openStateDatabase({ file: ':memory:' });
  const learner = new RouteLearner('seed', database.plugin('routing', {}).shared);
  for (const attempt of [1, 1, 2]) learner.learn('a', true, { taskId: 't', attempt });
  assert.deepEqual(learner.preview(ranking, alike)?.outcomes?.a, { attempts: 2, succeeded: 2 });
  database.close();
});
