/**
 * F-96 beside its workers: the submission of tasks, and their visibility to principals. A real server, with requests
 * over the control edge by principals with different grants.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { TaskRecord } from '../../src/fleet/orchestrator/task.ts';
import { ADMIN, named, startFleet, tokenOf } from './support/fleet-server.ts';

const TOKENS = [
  named('ann', 'fleet: { submit: true }'),
  named('bob', 'fleet: { submit: true }'),
  named('oscar', 'fleet: { operate: true }'),
  named('vera', 'roles: [client]'),
].join('');

async function started(t: TestContext) {
  const stand = await startFleet(t, TOKENS);
  const as = async (name: string) => {
    const control = await stand.as(name === 'root' ? ADMIN : tokenOf(name));
    return {
      call: (method: string, params: object = {}) => control.call(method, params as never) as Promise<never>,
      task: async (method: string, params: object) =>
        ((await control.call(method, params as never)) as { task: TaskRecord }).task,
      list: async (params: object = {}) =>
        ((await control.call('fleet.task.list', params as never)) as { tasks: TaskRecord[] }).tasks.map(
          ({ task_id }) => task_id,
        ),
    };
  };
  return { stand, as };
}

type Refusal = { readonly code: string; readonly message: string; readonly detail: object };
const refusalOf = (call: Promise<unknown>): Promise<Refusal> =>
  call.then(
    () => assert.fail('it was not refused'),
    ({ code, message, detail }: Refusal) => ({ code, message, detail }),
  );

test('with fleet.submit a principal hands tasks in, and reads, follows and cancels its own', async (t) => {
  const { as } = await started(t);
  const ann = await as('ann');
  const task = await ann.task('fleet.task.submit', { spec: { task_id: 'a-1', brief: 'x' } });
  assert.equal(task.submitter, 'ann');
  await ann.call('fleet.task.submit_batch', { specs: [{ task_id: 'a-2', brief: 'y', after: ['a-1'] }] });
  assert.deepEqual(await ann.list(), ['a-2', 'a-1']);
  assert.equal((await ann.task('fleet.task.get', { task_id: 'a-1' })).state, 'queued');
  const followed = (await ann.call('fleet.task.follow', { task_id: 'a-1' })) as { entries: { kind: string }[] };
  assert.equal(followed.entries[0]?.kind, 'submitted');
  await ann.call('fleet.task.result', { task_id: 'a-1' });
  assert.equal((await ann.task('fleet.task.cancel', { task_id: 'a-1' })).state, 'canceled');
});

test('a task of another submitter answers like one that does not exist, also after a restart', async (t) => {
  const { stand, as } = await started(t);
  const ann = await as('ann');
  await ann.call('fleet.task.submit', { spec: { task_id: 'a-1', brief: 'x', token_budget: 1000 } });
  await stand.orchestrator.submit({ task_id: 'of-nobody', brief: 'a program handed it in' });
  const asked = async (name: string): Promise<void> => {
    const bob = await as(name);
    assert.deepEqual(await bob.list(), []);
    for (const id of ['a-1', 'of-nobody']) {
      const like = (refusal: Refusal) => JSON.parse(JSON.stringify(refusal).replaceAll(id, 'no-such'));
      for (const method of ['get', 'follow', 'result', 'cancel']) {
        const unknown = await refusalOf(bob.call(`fleet.task.${method}`, { task_id: 'no-such' }));
        assert.equal(unknown.code, 'not_found');
        assert.deepEqual(like(await refusalOf(bob.call(`fleet.task.${method}`, { task_id: id }))), unknown, method);
      }
      for (const naming of [(of: string) => ({ after: [of] }), (of: string) => ({ parent_task_id: of })]) {
        const submit = (of: string) =>
          refusalOf(bob.call('fleet.task.submit', { spec: { brief: 'y', ...naming(of) } }));
        const batch = (of: string) =>
          refusalOf(bob.call('fleet.task.submit_batch', { specs: [{ brief: 'y', ...naming(of) }] }));
        assert.deepEqual(like(await submit(id)), await submit('no-such'));
        assert.deepEqual(like(await batch(id)), await batch('no-such'));
      }
    }
    // The name is used already, and that is all it learns: not even the same content returns the record.
    const same = { task_id: 'a-1', brief: 'x', token_budget: 1000 };
    const taken = await refusalOf(bob.call('fleet.task.submit', { spec: same }));
    assert.deepEqual(taken, await refusalOf(bob.call('fleet.task.submit', { spec: { ...same, brief: 'other' } })));
    assert.equal(taken.code, 'duplicate_conflict');
    assert.equal((await refusalOf(bob.call('fleet.task.submit_batch', { specs: [same] }))).code, 'duplicate_conflict');
  };
  await asked('bob');
  await stand.restart();
  await asked('bob');
  const later = await as('ann');
  assert.deepEqual(await later.list(), ['a-1']);
  assert.equal((await later.task('fleet.task.get', { task_id: 'a-1' })).submitter, 'ann');
  const { granted_tokens = 0 } = await stand.orchestrator.get('a-1');
  assert.equal(granted_tokens, 0);
});

test('a submitter continues no conversation of another one', async (t) => {
  const { as } = await started(t);
  const contextOf = async (name: string, spec: object): Promise<string | null> => {
    const submitter = await as(name);
    const { spec: stored } = await submitter.task('fleet.task.submit', { spec: { brief: 'x', ...spec } });
    return stored.context_id;
  };
  assert.equal(await contextOf('ann', { context_id: 'c-1' }), 'ann:c-1');
  assert.equal(await contextOf('ann', { context_id: 'ann:c-1' }), 'ann:c-1');
  assert.equal(await contextOf('bob', { context_id: 'c-1' }), 'bob:c-1');
  assert.equal(await contextOf('bob', { context_id: 'ann:c-1' }), 'bob:ann:c-1');
  // Without a context a worker continues the one of the task's id.
  assert.equal(await contextOf('bob', { task_id: 'ann:c-1' }), 'bob:ann:c-1');
  assert.equal(await contextOf('bob', {}), null);
  assert.equal(await contextOf('oscar', { context_id: 'ann:c-1' }), 'ann:c-1');
});

test('workers, counts and the tasks of all are for operators; submitting is not for those without a grant', async (t) => {
  const { as } = await started(t);
  const ann = await as('ann');
  await ann.call('fleet.task.submit', { spec: { task_id: 'a-1', brief: 'x' } });
  const operated: readonly (readonly [string, object])[] = [
    ['status', {}],
    ['workers', {}],
    ['worker.drain', { peer_id: 'w' }],
    ['task.retry', { task_id: 'a-1' }],
    ['task.drop', { task_id: 'a-1' }],
    ['task.steer', { task_id: 'a-1', text: 'x' }],
    ['task.answer', { task_id: 'a-1', question_id: 'q', allowed: true }],
    ['route.explain', { task_id: 'a-1' }],
  ];
  for (const [method, params] of operated) {
    const { code, detail } = await refusalOf(ann.call(`fleet.${method}`, params));
    assert.deepEqual([method, code, detail], [method, 'unauthorized', { grant: 'fleet.operate' }]);
  }
  const vera = await as('vera');
  for (const method of ['submit', 'list', 'get', 'follow', 'result', 'cancel']) {
    const { code, detail } = await refusalOf(vera.call(`fleet.task.${method}`, { task_id: 'a-1' }));
    assert.deepEqual([code, detail], ['unauthorized', { grant: 'fleet.submit' }]);
  }
  for (const name of ['oscar', 'root']) {
    const operator = await as(name);
    assert.deepEqual(await operator.list(), ['a-1']);
    await operator.call('fleet.status');
    assert.equal((await operator.task('fleet.task.get', { task_id: 'a-1' })).submitter, 'ann');
  }
  const oscar = await as('oscar');
  assert.equal((await oscar.task('fleet.task.cancel', { task_id: 'a-1' })).state, 'canceled');
});
