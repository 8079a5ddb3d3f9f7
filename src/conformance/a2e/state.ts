/**
 * Cases of the stateful capabilities: env, proc, memory, learning, planning. They remove the state that they create
 * where the protocol can.
 */
import { expect, Skip } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import type { A2eConnection } from './connection.ts';
import { type A2eContext, casesOf } from './context.ts';

const ENV = 'env: env/*';
const PROC = 'proc: proc/*';
const MEMORY = 'memory: memory/*';
const LEARNING = 'learning: learn/*';
const PLANNING = 'planning: planning/*';

const UNKNOWN = 'conformance-unknown-id';

/** Resets the environment that was named. */
async function episode(context: A2eContext): Promise<{ connection: A2eConnection; obs: Fields; id: string }> {
  const name = context.target.env;
  if (name === undefined) throw new Skip('no environment was named: --env NAME');
  const connection = await context.granted('env');
  const { obs } = await connection.result('env/reset/req', { env_name: name, seed: 7 }, 'env/reset/resp');
  expect(typeof obs === 'object' && obs !== null, 'obs', obs);
  return { connection, obs: obs as Fields, id: String((obs as Fields).episode_id) };
}

const close = (connection: A2eConnection, id: string): Promise<Fields> =>
  connection.result('env/close/req', { episode_id: id }, 'env/close/resp');

export const envCases = casesOf([
  [
    'A2E-EN-001',
    'MUST',
    ENV,
    'resetting an unknown environment gets error',
    async (context) => {
      const connection = await context.granted('env');
      await connection.refused('env/reset/req', { env_name: UNKNOWN });
    },
  ],
  [
    'A2E-EN-002',
    'MUST',
    ENV,
    'stepping and observing an unknown episode get error',
    async (context) => {
      const connection = await context.granted('env');
      const action = { action_type: 'step', payload: { action: 0 } };
      await connection.refused('env/step/req', { episode_id: UNKNOWN, action });
      await connection.refused('env/observe/req', { episode_id: UNKNOWN });
    },
  ],
  [
    'A2E-EN-003',
    'MUST',
    ENV,
    'a reset starts an episode at step 0, and an observation changes nothing',
    async (context) => {
      const { connection, obs, id } = await episode(context);
      expect(obs.step_num === 0 && obs.done !== true, 'step_num 0, not done', obs);
      for (let count = 0; count < 2; count += 1) {
        const seen = await connection.result('env/observe/req', { episode_id: id }, 'env/observe/resp');
        const { step_num, episode_id } = (seen.obs ?? {}) as Fields;
        expect(step_num === 0 && episode_id === id, 'step 0 of the same episode', seen);
      }
      await close(connection, id);
    },
  ],
  [
    'A2E-EN-004',
    'MUST',
    ENV,
    'an episode can be closed twice, and a closed one cannot be stepped',
    async (context) => {
      const { connection, id } = await episode(context);
      for (let count = 0; count < 2; count += 1) {
        const { closed } = await close(connection, id);
        expect(closed !== false, 'closed true', closed);
      }
      await connection.refused('env/step/req', {
        episode_id: id,
        action: { action_type: 'step', payload: { action: 0 } },
      });
    },
  ],
  [
    'A2E-EN-005',
    'MUST',
    ENV,
    'two episodes are open side by side',
    async (context) => {
      const [one, other] = [await episode(context), await episode(context)];
      expect(one.id !== other.id, 'two different episode_ids', other.obs);
      for (const { connection, id } of [one, other]) {
        await connection.result('env/observe/req', { episode_id: id }, 'env/observe/resp');
        await close(connection, id);
      }
    },
  ],
  [
    'A2E-EN-006',
    'MUST',
    ENV,
    'env/space/req describes the actions and the state',
    async (context) => {
      if (context.target.env === undefined) throw new Skip('no environment was named: --env NAME');
      const connection = await context.granted('env');
      const answer = await connection.result('env/space/req', { env_name: context.target.env }, 'env/space/resp');
      for (const name of ['action_space', 'state_schema'] as const)
        expect(typeof answer[name] === 'object' && answer[name] !== null, `${name} as an object`, answer);
    },
  ],
  [
    'A2E-EN-007',
    'MUST',
    ENV,
    'an action that the environment does not understand gets error and does not count',
    async (context) => {
      const { connection, id } = await episode(context);
      const action = { action_type: 'conformance', payload: { action: { conformance: [] } } };
      await connection.refused('env/step/req', { episode_id: id, action }, 'unknown_action', 'schema_violation');
      const seen = await connection.result('env/observe/req', { episode_id: id }, 'env/observe/resp');
      expect((seen.obs as Fields).step_num === 0, 'step_num 0', seen);
      await close(connection, id);
    },
  ],
]);

/** Starts the program that was named and resolves with its events, once it has ended. */
async function run(
  context: A2eContext,
): Promise<{ connection: A2eConnection; proc: string; events: readonly Fields[] }> {
  const cmd = context.target.program;
  if (cmd === undefined) throw new Skip('no program was named: --program WORDS');
  const connection = await context.granted('proc');
  const id = connection.send('proc/spawn/req', { cmd });
  const answer = await connection.answer(id);
  expect(answer.type === 'proc/spawn/resp' && answer.ok === true, 'proc/spawn/resp with ok true', answer);
  expect(Number(answer.pid) > 0, 'a pid', answer);
  const hasCode = ({ req_id, data }: Fields): boolean =>
    req_id === id && (data as Fields | undefined)?.code !== undefined;
  await connection.peer.find(hasCode, 'the event with the exit code');
  await connection.alive();
  return { connection, proc: String(answer.proc_id), events: connection.events(id) };
}

export const procCases = casesOf([
  [
    'A2E-PR-001',
    'MUST',
    PROC,
    'an empty command is refused with ok false and pid 0',
    async (context) => {
      const connection = await context.granted('proc');
      const answer = await connection.request('proc/spawn/req', { cmd: [] });
      if (answer.type !== 'error') expect(answer.ok === false && (answer.pid ?? 0) === 0, 'ok false and pid 0', answer);
    },
  ],
  [
    'A2E-PR-002',
    'MUST',
    PROC,
    'killing an unknown process is refused with ok false',
    async (context) => {
      const connection = await context.granted('proc');
      const answer = await connection.request('proc/kill/req', { proc_id: UNKNOWN });
      if (answer.type !== 'error') expect(answer.ok === false, 'ok false', answer);
    },
  ],
  [
    'A2E-PR-003',
    'MUST',
    PROC,
    'the status of an unknown process is not_found',
    async (context) => {
      const connection = await context.granted('proc');
      const answer = await connection.request('proc/status/req', { proc_id: UNKNOWN });
      if (answer.type !== 'error') expect(answer.status === 'not_found', 'status not_found', answer);
    },
  ],
  [
    'A2E-PR-004',
    'MUST',
    PROC,
    'a program has one event with its exit code, behind all of its output',
    async (context) => {
      const { events } = await run(context);
      const codes = events.filter(({ data }) => (data as Fields).code !== undefined);
      expect(codes.length === 1, 'one event with code', codes);
      expect(events.at(-1) === codes[0], 'the exit code in the last event', events);
    },
  ],
  [
    'A2E-PR-005',
    'MUST',
    PROC,
    'the status of a program that has ended is completed or failed',
    async (context) => {
      const { connection, proc } = await run(context);
      const answer = await connection.result('proc/status/req', { proc_id: proc }, 'proc/status/resp');
      expect(['completed', 'failed'].includes(String(answer.status)), 'completed or failed', answer);
    },
  ],
]);

/** Opens a separate memory for the kit and deletes the entries that a case stored there, also when it fails. */
async function remembering(
  context: A2eContext,
  work: (memory: { connection: A2eConnection; id: string; key: Fields }) => Promise<void>,
): Promise<void> {
  const connection = await context.granted('memory');
  const opened = await connection.result('memory/init/req', { namespace: 'conformance' }, 'memory/init/resp');
  const id = String(opened.memory_id);
  const key = { conformance: connection.id() };
  try {
    await work({ connection, id, key });
  } finally {
    await connection.request('memory/forget/req', { memory_id: id, keys: [key], tier: 'working' });
  }
}

const store = (connection: A2eConnection, id: string, entries: readonly unknown[]): Promise<Fields> =>
  connection.result('memory/store/req', { memory_id: id, entries }, 'memory/store/resp');

const retrieve = async (connection: A2eConnection, id: string, body: Fields): Promise<Fields> =>
  connection.result('memory/retrieve/req', { memory_id: id, tier: 'working', ...body }, 'memory/retrieve/resp');

const entriesIn = ({ entries }: Fields): readonly Fields[] => (Array.isArray(entries) ? (entries as Fields[]) : []);

export const memoryCases = casesOf([
  [
    'A2E-ME-001',
    'MUST',
    MEMORY,
    'memory/init/req opens a store and answers its memory_id',
    (context) => remembering(context, async ({ id }) => expect(id !== '' && id !== 'undefined', 'a memory_id', id)),
  ],
  [
    'A2E-ME-002',
    'MUST',
    MEMORY,
    'what was stored is retrieved by its key, equal to what was given',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        const content = { text: 'été 東京 😀 \u2028', list: [1, 2.5, null, true] };
        const { errors } = await store(connection, id, [{ key, content, tier: 'working' }]);
        expect(!Array.isArray(errors) || errors.length === 0, 'no errors', errors);
        const [entry] = entriesIn(await retrieve(connection, id, { keys: [key] }));
        expect(JSON.stringify(entry?.content) === JSON.stringify(content), `content ${JSON.stringify(content)}`, entry);
      }),
  ],
  [
    'A2E-ME-003',
    'MUST',
    MEMORY,
    'storing an existing key and tier replaces its entry',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        for (const content of ['one', 'two']) await store(connection, id, [{ key, content, tier: 'working' }]);
        const found = entriesIn(await retrieve(connection, id, { keys: [key] }));
        expect(found.length === 1 && found[0]?.content === 'two', 'one entry, "two"', found);
      }),
  ],
  [
    'A2E-ME-004',
    'MUST',
    MEMORY,
    'forgetting a key removes its entry, and deleted counts it',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        await store(connection, id, [{ key, content: 'x', tier: 'working' }]);
        const body = { memory_id: id, keys: [key], tier: 'working' };
        const { deleted } = await connection.result('memory/forget/req', body, 'memory/forget/resp');
        expect(deleted === 1, 'deleted 1', deleted);
        const found = entriesIn(await retrieve(connection, id, { keys: [key] }));
        expect(found.length === 0, 'no entry', found);
      }),
  ],
  [
    'A2E-ME-005',
    'SHOULD',
    MEMORY,
    'forgetting with neither keys nor tags deletes nothing',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        await store(connection, id, [{ key, content: 'x', tier: 'working' }]);
        const answer = await connection.request('memory/forget/req', { memory_id: id, tier: 'working' });
        if (answer.type !== 'error') expect(answer.deleted === 0, 'deleted 0', answer);
        const found = entriesIn(await retrieve(connection, id, { keys: [key] }));
        expect(found.length === 1, 'the entry', found);
      }),
  ],
  [
    'A2E-ME-006',
    'MUST',
    MEMORY,
    'a query finds an entry by a text in it',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        const word = 'conformancewortquelle';
        await store(connection, id, [{ key, content: `before ${word} behind`, tier: 'working' }]);
        const found = entriesIn(await retrieve(connection, id, { query: word }));
        expect(
          found.some((entry) => JSON.stringify(entry.key) === JSON.stringify(key)),
          'the entry',
          found,
        );
      }),
  ],
  [
    'A2E-ME-007',
    'SHOULD',
    MEMORY,
    'a bad entry is reported in errors, and the others are stored',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        const { errors } = await store(connection, id, [{ key, content: 'x', tier: 'working' }, { tier: 'working' }]);
        expect(Array.isArray(errors) && errors.length === 1, 'one error', errors);
        const found = entriesIn(await retrieve(connection, id, { keys: [key] }));
        expect(found.length === 1, 'the good entry', found);
      }),
  ],
  [
    'A2E-ME-008',
    'MUST',
    MEMORY,
    'an unknown memory_id gets error',
    async (context) => {
      const connection = await context.granted('memory');
      await connection.refused('memory/retrieve/req', { memory_id: UNKNOWN });
    },
  ],
  [
    'A2E-ME-009',
    'SHOULD',
    MEMORY,
    'the error of an unknown memory_id has the code memory_not_found',
    async (context) => {
      const connection = await context.granted('memory');
      await connection.refused('memory/retrieve/req', { memory_id: UNKNOWN }, 'memory_not_found');
    },
  ],
  [
    'A2E-ME-010',
    'SHOULD',
    MEMORY,
    'total counts the matches before limit',
    (context) =>
      remembering(context, async ({ connection, id, key }) => {
        const keys = [key, { ...key, second: true }];
        await store(
          connection,
          id,
          keys.map((each) => ({ key: each, content: 'x', tier: 'working' })),
        );
        const answer = await retrieve(connection, id, { keys, limit: 1 });
        await connection.request('memory/forget/req', { memory_id: id, keys, tier: 'working' });
        expect(entriesIn(answer).length === 1 && answer.total === 2, 'one entry, total 2', answer);
      }),
  ],
]);

export const learningCases = casesOf([
  [
    'A2E-LN-001',
    'MUST',
    LEARNING,
    'learn/stats/req is answered by learn/stats/resp with components',
    async (context) => {
      const connection = await context.granted('learning');
      const answer = await connection.result('learn/stats/req', {}, 'learn/stats/resp');
      expect(Array.isArray(answer.components), 'components as a list', answer);
    },
  ],
  [
    'A2E-LN-002',
    'MUST',
    LEARNING,
    'learn/refinement/history/req is answered by its response with entries',
    async (context) => {
      const connection = await context.granted('learning');
      const answer = await connection.result('learn/refinement/history/req', {}, 'learn/refinement/history/resp');
      expect(Array.isArray(answer.entries), 'entries as a list', answer);
    },
  ],
  [
    'A2E-LN-003',
    'SHOULD',
    LEARNING,
    'feedback that corrects and has no correction is refused',
    async (context) => {
      const connection = await context.granted('learning');
      const feedback = { polarity: 'corrective', correction: '', rated_turn: null, correlation_id: 'conformance' };
      const answer = await connection.request('learn/feedback/req', { feedbacks: [feedback] });
      if (answer.type !== 'error') expect(answer.recorded === 0, 'error, or recorded 0', answer);
    },
  ],
  [
    'A2E-LN-004',
    'MUST',
    LEARNING,
    'rolling back an unknown refinement is refused',
    async (context) => {
      const connection = await context.granted('learning');
      const answer = await connection.request('learn/refinement/rollback/req', { refinement_id: UNKNOWN });
      if (answer.type !== 'error') expect(answer.rolled_back === false, 'rolled_back false', answer);
    },
  ],
]);

/** Makes a plan; it stays, since the protocol removes none. */
async function plan(context: A2eContext): Promise<{ connection: A2eConnection; id: string; answer: Fields }> {
  if (context.target.writes !== true) throw new Skip('it leaves a plan behind: --writes');
  const connection = await context.granted('planning');
  const name = `conformance ${connection.id()} ${Math.trunc(performance.timeOrigin)}`;
  const answer = await connection.result('planning/plan/create', { name }, 'planning/plan/create/resp');
  expect(answer.success === true, 'success true', answer);
  return { connection, id: String(answer.plan_id), answer };
}

export const planningCases = casesOf([
  [
    'A2E-PL-001',
    'MUST',
    PLANNING,
    'planning/plan/list is answered by its response with plans',
    async (context) => {
      const connection = await context.granted('planning');
      const answer = await connection.result('planning/plan/list', {}, 'planning/plan/list/resp');
      expect(Array.isArray(answer.plans), 'plans as a list', answer);
    },
  ],
  [
    'A2E-PL-002',
    'MUST',
    PLANNING,
    'adding a task to an unknown plan is refused',
    async (context) => {
      const connection = await context.granted('planning');
      const answer = await connection.request('planning/task/add', { plan_id: UNKNOWN, title: 'conformance' });
      if (answer.type !== 'error') expect(answer.success === false, 'success false', answer);
    },
  ],
  [
    'A2E-PL-003',
    'MUST',
    PLANNING,
    'a plan without columns has backlog, todo, in_progress and done',
    async (context) => {
      const { answer } = await plan(context);
      expect(JSON.stringify(answer.columns) === '["backlog","todo","in_progress","done"]', 'the four columns', answer);
    },
  ],
  [
    'A2E-PL-004',
    'MUST',
    PLANNING,
    'a task is added to backlog, moved, listed and shown on the board',
    async (context) => {
      const { connection, id } = await plan(context);
      const body = { plan_id: id, title: 'conformance' };
      const added = await connection.result('planning/task/add', body, 'planning/task/add/resp');
      expect(added.success === true && added.status === 'backlog', 'success true in backlog', added);
      const task = String(added.task_id);
      const change = { plan_id: id, task_id: task, status: 'done' };
      const moved = await connection.result('planning/task/update', change, 'planning/task/update/resp');
      expect(moved.success === true, 'success true', moved);
      const { tasks } = await connection.result('planning/task/list', { plan_id: id }, 'planning/task/list/resp');
      const found = (tasks as Fields[]).find(({ task_id }) => task_id === task);
      expect(found?.status === 'done', 'the task, done', tasks);
      const { boards } = await connection.result('planning/plan/board', { plan_id: id }, 'planning/plan/board/resp');
      const columns = ((boards as Fields[])[0]?.tasks ?? {}) as Readonly<Record<string, readonly Fields[]>>;
      expect(
        columns.done?.some(({ task_id }) => task_id === task),
        'the task in the column done',
        boards,
      );
    },
  ],
  [
    'A2E-PL-005',
    'MUST',
    PLANNING,
    'an update that changes nothing is answered',
    async (context) => {
      const { connection, id } = await plan(context);
      const body = { plan_id: id, title: 'conformance' };
      const { task_id } = await connection.result('planning/task/add', body, 'planning/task/add/resp');
      await connection.request('planning/task/update', { plan_id: id, task_id });
    },
  ],
]);
