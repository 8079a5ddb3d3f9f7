/** The tasks of an A2A agent on disk. */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import type { Task } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { STATE } from '../../../src/fleet/bus/a2a/messages.ts';
import { invalidParams } from '../../../src/fleet/bus/a2a/request-params.ts';
import { loadA2aServer } from '../../../src/fleet/bus/a2a/sdk.ts';
import {
  type A2aTaskStore,
  type A2aTaskStoreOptions,
  openA2aTaskStore,
} from '../../../src/fleet/bus/a2a/task-store.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { folder, text } from './agent-stand.ts';

const codeIs =
  (code: string) =>
  (error: HandfastError): boolean =>
    error.code === code;

async function opened(context: TestContext, options: Partial<A2aTaskStoreOptions> = {}): Promise<A2aTaskStore> {
  const store = openA2aTaskStore({
    file: join(await folder(context), 'a2a.db'),
    sdk: await loadA2aServer(),
    passing: () => false,
    ...options,
  });
  context.after(() => store.close());
  return store;
}

function task(id: string, more: Partial<Task> = {}, state: number = STATE.completed, second = 0): Task {
  const timestamp = `2026-06-01T12:00:${String(second).padStart(2, '0')}.000Z`;
  return {
    id,
    contextId: 'c-1',
    status: { state, message: undefined, timestamp },
    artifacts: [
      { artifactId: 'a', name: '', description: '', parts: [text('done')], metadata: undefined, extensions: [] },
    ],
    history: [],
    metadata: { note: 1 },
    ...more,
  };
}

const callOf = (userName: string, tenant?: string): ServerCallContext =>
  new ServerCallContext({ user: { isAuthenticated: true, userName }, ...(tenant !== undefined && { tenant }) });

const asked = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined } as const;

test('a task comes back as it was saved, to its owner and no other', async (context) => {
  const store = await opened(context);
  await store.save(task('t'), callOf('boss'));
  assert.deepEqual(await store.load('t', callOf('boss')), task('t'));
  assert.equal(await store.load('t', callOf('other')), undefined);
  assert.equal(await store.load('t', callOf('boss', 'elsewhere')), undefined);
  const { tasks } = await store.list(asked, callOf('other'));
  assert.deepEqual(tasks, []);
});

test('tasks are listed newest first, page by page, and by what is asked for', async (context) => {
  const store = await opened(context);
  const boss = callOf('boss');
  for (let n = 0; n < 5; n++) {
    await store.save(
      task(`t-${n}`, { contextId: n < 2 ? 'c-1' : 'c-2' }, n === 4 ? STATE.working : STATE.completed, n),
      boss,
    );
  }
  const ids: string[][] = [];
  let pageToken = '';
  do {
    const page = await store.list({ ...asked, pageSize: 2, pageToken }, boss);
    assert.deepEqual([page.totalSize, page.pageSize], [5, 2]);
    assert.ok(page.tasks.every(({ artifacts }) => artifacts.length === 0));
    ids.push(page.tasks.map(({ id }) => id));
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  assert.deepEqual(ids, [['t-4', 't-3'], ['t-2', 't-1'], ['t-0']]);
  const listed = async (more: object): Promise<string[]> =>
    (await store.list({ ...asked, ...more }, boss)).tasks.map(({ id }) => id);
  assert.deepEqual(await listed({ contextId: 'c-1' }), ['t-1', 't-0']);
  assert.deepEqual(await listed({ status: STATE.working }), ['t-4']);
  assert.deepEqual(await listed({ statusTimestampAfter: '2026-06-01T14:00:02+02:00' }), ['t-4', 't-3']);
  await assert.rejects(store.list({ ...asked, pageToken: 'nonsense' }, boss), /page token/);
  const problem = (statusTimestampAfter: unknown) => invalidParams('ListTasks', { statusTimestampAfter });
  for (const time of ['2026-06-01T14:00:02', '2026-06-01', '2026-02-30T00:00:00Z', '2026-06-01T24:00:00Z', '5', 5]) {
    assert.match(problem(time) ?? '', /statusTimestampAfter.*RFC 3339 with an offset/, String(time));
  }
  for (const time of ['2026-06-01t14:00:02.123456z', '2016-12-31T23:59:60Z', '', null]) {
    assert.equal(problem(time), undefined, String(time));
  }
});

test('what is only passing is no part of the history', async (context) => {
  const store = await opened(context, { passing: ({ messageId }) => messageId === 'passing' });
  const said = (messageId: string) => ({
    messageId,
    contextId: 'c-1',
    taskId: 't',
    role: 2,
    parts: [text('x')],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  });
  store.put({ tenant: '', owner: 'boss' }, task('t', { history: [said('kept'), said('passing')] }));
  const found = store.find({ tenant: '', owner: 'boss' }, 't');
  assert.deepEqual(
    found?.history.map(({ messageId }) => messageId),
    ['kept'],
  );
});

test('ended tasks are forgotten when they are too old or too many, open ones never', async (context) => {
  let at = 0;
  const store = await opened(context, { retainMs: 1_000, maxTasks: 100, now: () => at });
  const scope = { tenant: '', owner: 'boss' };
  store.put(scope, task('open', {}, STATE.working));
  store.put(scope, task('old'));
  const link = {
    ...scope,
    channel: 'o',
    taskId: 'f',
    attempt: 1,
    id: 'old',
    messageId: 'm',
    digest: 'd',
    form: 'plain',
  };
  store.link(link);
  assert.deepEqual(store.linkOf('o', 'f'), link);
  at = 5_000;
  for (let n = 0; n < 1_100; n++) store.put(scope, task(`t-${n}`));
  assert.equal(store.find(scope, 'old'), undefined);
  assert.equal(store.linkOf('o', 'f'), undefined);
  assert.deepEqual(
    store.open().map((one) => one.task.id),
    ['open'],
  );
  const { totalSize } = await store.list(asked, callOf('boss'));
  assert.ok(totalSize <= 700, `${totalSize} tasks`);
});

test('a store is one process’s alone, a damaged one is set aside, and a stranger’s is left as it is', async (context) => {
  const home = await folder(context);
  const sdk = await loadA2aServer();
  const open = (name: string, more: Partial<A2aTaskStoreOptions> = {}): A2aTaskStore =>
    openA2aTaskStore({ file: join(home, name), sdk, passing: () => false, ...more });
  const first = open('mine.db');
  assert.throws(() => open('mine.db'), codeIs('journal_locked'));
  first.close();
  open('mine.db').close();

  writeFileSync(join(home, 'damaged.db'), 'no database at all, whatever it is called'.repeat(100));
  assert.throws(() => open('damaged.db'), codeIs('journal_corrupt'));
  const moved: string[] = [];
  open('damaged.db', { onCorrupt: ({ movedTo }) => moved.push(movedTo) }).close();
  assert.equal(moved.length, 1);

  const stranger = new DatabaseSync(join(home, 'stranger.db'));
  stranger.exec('CREATE TABLE theirs (x)');
  stranger.close();
  assert.throws(() => open('stranger.db'), codeIs('runtime_error'));
});
