/** The life of a task in a worker: taken, begun, done, reported, and which messages it sends on the way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Readiness } from '../../../src/fleet/executors/executor.ts';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import { MAX_NAMES } from '../../../src/fleet/messages/names.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { aborted, block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, Desk, dispatch, LEASE, silent } from '../support/worker-bench.ts';

/** Makes a gate for a turn that runs until the test lets it end. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

test('a task is taken, run once, and its result goes to the outlet with its envelope', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => ({
    text: block(taskId, { summary: 'All done.' }),
    usage: { source: 'measured', input: 100, output: 20, cache_read: 5000 },
  }));
  const { desk, worker, cwd, ...rest } = await bench(t, { executor });
  const envelope = { message_id: 'm-1', context_id: 'c-1', correlation_id: 'root', attempt: 2 };
  const result = await rest.do(dispatch('t-1', { envelope }), { fence: 17, ttlS: 45 });
  assert.equal(result.status, 'done');
  assert.equal(result.summary, 'All done.');
  assert.equal(result.tokens_spent, 120);
  assert.equal(result.usage?.cache_read, 5000);
  assert.equal(result.prose, 'Here is what I did.');
  assert.equal(result.conformance, 'strict');
  const { context_id, correlation_id, causation_id, attempt, lease, sender } = result.envelope ?? {};
  assert.deepEqual(
    { context_id, correlation_id, causation_id, attempt, lease, sender },
    {
      context_id: 'c-1',
      correlation_id: 'root',
      causation_id: 'm-1',
      attempt: 2,
      lease: { ttl_s: 45, fence: 17 },
      sender: 'w-1',
    },
  );
  assert.equal(executor.turns.length, 1);
  const prompt = executor.turns[0]?.prompt ?? '';
  assert.ok(prompt.startsWith('Do it.\n'));
  assert.ok(prompt.includes(cwd), 'the absolute folder is stated');
  assert.equal(worker.activeTasks, 0);
  assert.equal(desk.results.length, 1);
});

test('nothing runs between the acceptance and begin, and what is abandoned was never taken', async (t) => {
  const executor = scriptedExecutor();
  const { worker, desk } = await bench(t, { executor });
  const reception = await worker.receive(dispatch('t-1'), desk);
  assert.equal(reception.kind, 'accepted');
  assert.equal(worker.activeTasks, 1);
  const poll = { type: 'TASK_POLL', protocol_version: '2.0', task_id: 't-1' } as const;
  assert.equal(((await worker.handle(poll, desk)) as { state?: string }).state, 'accepted');
  if (reception.kind === 'accepted') {
    await reception.abandon();
    reception.start(LEASE);
  }
  assert.equal(((await worker.handle(poll, desk)) as { state?: string }).state, 'unknown');
  assert.equal(worker.activeTasks, 0);
  assert.equal(executor.turns.length, 0);
});

test('ten dispatches of one task at once are one run; later ones get the stored result', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { desk, give, ...rest } = await bench(t, { executor });
  const receptions = await Promise.all(Array.from({ length: 10 }, () => give(dispatch('t-1'))));
  assert.deepEqual(receptions.map(({ kind }) => kind).sort(), ['accepted', ...Array<string>(9).fill('taken')]);
  open();
  const result = await desk.result('t-1');
  await rest.idle();
  for (let time = 0; time < 10; time += 1) {
    const again = await give(dispatch('t-1'));
    assert.equal(again.kind, 'replay');
    assert.deepEqual(again.kind === 'replay' && again.result, result);
  }
  assert.equal(executor.turns.length, 1);
});

test('the same id with other content is a conflict, while it runs and after it', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { desk, give, ...rest } = await bench(t, { executor });
  await give(dispatch('t-1'));
  const other = dispatch('t-1', { brief: 'Something else.' });
  assert.equal((await rest.do(other)).blocked?.code, 'duplicate_conflict');
  open();
  await desk.result('t-1');
  assert.equal((await rest.do(other)).blocked?.code, 'duplicate_conflict');
  assert.equal(executor.turns.length, 1);
});

test('a later attempt is run when the earlier result was taken, and is shown unseen work instead of doing it twice', async (t) => {
  const executor = scriptedExecutor();
  const { desk, give, ...rest } = await bench(t, { executor });
  await rest.do(dispatch('t-1'));
  await rest.idle();
  assert.equal((await give(dispatch('t-1', { envelope: { attempt: 2 } }))).kind, 'accepted');
  await desk.until(() => (desk.results.length === 2 ? true : undefined), 'the second result');

  desk.refuses = true;
  await give(dispatch('t-2'));
  await rest.idle();
  const shown = await give(dispatch('t-2', { envelope: { attempt: 2 } }));
  assert.equal(shown.kind === 'replay' && shown.result.envelope?.attempt, 1);
  assert.equal(executor.turns.length, 3);
});

test('a second task of a conversation waits until the first is done; other conversations do not', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    if (taskId === 't-1') await opened;
    return block(taskId);
  });
  const { desk, give } = await bench(t, { executor });
  const envelope = { context_id: 'c-1' };
  await give(dispatch('t-1', { envelope }));
  const second = await give(dispatch('t-2', { envelope }));
  assert.deepEqual([second.kind, second.kind === 'busy' && second.reason], ['busy', 'context']);
  assert.equal((await give(dispatch('t-3', { envelope: { context_id: 'c-2' } }))).kind, 'accepted');
  open();
  await desk.result('t-1');
  await desk.until(() => (desk.results.length === 2 ? true : undefined), 'both');
  assert.equal((await give(dispatch('t-2', { envelope }))).kind, 'accepted');
  await desk.result('t-2');
});

test('a cancel stops the executor, is idempotent, and says what was left', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal }) => {
    await aborted(signal);
    return { text: 'half of it', ending: 'stopped', usage: { source: 'measured', input: 7, output: 3 } };
  });
  const { desk, worker, give, ...rest } = await bench(t, { executor });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  const cancel = { type: 'TASK_CANCEL', protocol_version: '2.0', task_id: 't-1', reason: 'not needed' } as const;
  assert.equal(await worker.handle(cancel, desk), undefined);
  assert.equal(await worker.handle(cancel, desk), undefined);
  const result = await desk.result('t-1');
  assert.equal(result.status, 'error');
  assert.equal(result.error_summary, 'canceled: not needed');
  assert.equal(result.tokens_spent, 10);
  await rest.idle();
  assert.deepEqual(await worker.handle(cancel, desk), result, 'a finished task answers with its result');
  const unknown = await worker.handle({ ...cancel, task_id: 't-9' }, desk);
  assert.equal((unknown as { state?: string }).state, 'unknown');
});

test('a task canceled before it is begun starts no executor', async (t) => {
  const executor = scriptedExecutor();
  const { desk, worker } = await bench(t, { executor });
  const reception = await worker.receive(dispatch('t-1'), desk);
  await worker.handle({ type: 'TASK_CANCEL', protocol_version: '2.0', task_id: 't-1' }, desk);
  if (reception.kind === 'accepted') reception.start(LEASE);
  const result = await desk.result('t-1');
  assert.deepEqual([result.status, result.tokens_spent], ['error', 0]);
  assert.equal(executor.turns.length, 0);
});

test('a block that was there when a task was canceled makes it partial', async (t) => {
  const executor = scriptedExecutor(async ({ taskId }, { signal }) => {
    await aborted(signal);
    return { text: block(taskId, { status: 'partial', next_steps: ['the rest'] }), ending: 'stopped' };
  });
  const { desk, worker, give } = await bench(t, { executor });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  await worker.handle({ type: 'TASK_CANCEL', protocol_version: '2.0', task_id: 't-1' }, desk);
  const { status, next_steps } = await desk.result('t-1');
  assert.equal(status, 'partial');
  assert.equal(next_steps?.[0], 'the rest');
});

test('steering reaches the executor once for each id, and its outcome is reported', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { desk, worker, give } = await bench(t, { executor });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  const steer = {
    type: 'TASK_STEER',
    protocol_version: '2.0',
    task_id: 't-1',
    steer_id: 's-1',
    text: 'Use tabs.',
  } as const;
  await worker.handle(steer, desk);
  await worker.handle(steer, desk);
  assert.deepEqual(executor.steered, ['Use tabs.']);
  await desk.message('TASK_PROGRESS', ({ note }) => note === 'steer s-1 injected');
  open();
  await desk.result('t-1');
});

test('a question goes to the orchestrator and its answer to the executor; it is asked again after a reconnect', async (t) => {
  const executor = scriptedExecutor(async ({ taskId }, { events }) => {
    const answer = await events.ask({ kind: 'question', title: 'Tabs or spaces?' });
    return block(taskId, { summary: `${answer.allowed} ${answer.content?.choice}` });
  });
  const { desk, worker, give } = await bench(t, { executor });
  await give(dispatch('t-1'));
  const { question_id, title } = await desk.message('TASK_QUESTION');
  assert.equal(title, 'Tabs or spaces?');
  const later = new Desk();
  worker.attach(later);
  assert.equal((await later.message('TASK_QUESTION')).question_id, question_id);
  const answer = { type: 'TASK_ANSWER', protocol_version: '2.0', task_id: 't-1', question_id } as const;
  await worker.handle({ ...answer, allowed: true, content: { choice: 'tabs' } }, later);
  await worker.handle({ ...answer, allowed: false }, later);
  assert.equal((await later.result('t-1')).summary, 'true tabs');
});

test('a question is refused at once where no user can be asked', async (t) => {
  const executor = scriptedExecutor(async ({ taskId }, { events }) => {
    const { allowed, reason } = await events.ask({ kind: 'tool', title: 'May I?' });
    return block(taskId, { summary: `${allowed}: ${reason}` });
  });
  const { worker } = await bench(t, { executor });
  const desk = new Desk('deaf', ['ack']);
  worker.attach(desk);
  const reception = await worker.receive(dispatch('t-1'), desk);
  if (reception.kind === 'accepted') reception.start(LEASE);
  assert.equal((await desk.result('t-1')).summary, 'false: the orchestrator accepts no questions');
  assert.ok(
    desk.told.every(({ type }) => type === 'SESSION_ANNOUNCE'),
    'nothing it has no feature for',
  );
});

test('progress is thinned out, keeps its order, and ends with the newest', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }, { events }) => {
    for (let percent = 0; percent <= 100; percent += 1) events.progress('running', `step ${percent}`, percent);
    await opened;
    return block(taskId);
  });
  const { desk, give } = await bench(t, { executor });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ percent }) => percent === 100);
  open();
  await desk.result('t-1');
  const told = desk.told.filter((one) => one.type === 'TASK_PROGRESS');
  assert.ok(told.length < 10, `${told.length} messages`);
  const numbers = told.map(({ seq }) => seq);
  assert.deepEqual(
    numbers,
    [...numbers].sort((one, other) => one - other),
  );
});

test('drain takes nothing more, lets what runs end, and says so', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { desk, worker, give, ...rest } = await bench(t, { executor });
  await give(dispatch('t-1'));
  const drained = worker.drain('maintenance');
  await desk.message('SESSION_ANNOUNCE', ({ session }) => session?.draining === true);
  assert.equal((await rest.do(dispatch('t-2'))).blocked?.code, 'draining');
  open();
  await drained;
  assert.equal(desk.results[0]?.status, 'done');
});

test('stop ends what runs, reports it, and says goodbye last', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal }) => {
    await aborted(signal);
    return { text: '', ending: 'stopped' };
  });
  const { desk, worker, give } = await bench(t, { executor });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  const begunNot = await worker.receive(dispatch('t-2'), desk);
  assert.equal(begunNot.kind, 'accepted');
  await Promise.all([worker.close(), worker.close()]);
  const [running, unbegun] = await Promise.all([desk.result('t-1'), desk.result('t-2')]);
  assert.equal(running.error_summary, 'The worker was stopped during the task.');
  assert.deepEqual([unbegun.status, unbegun.blocked?.code, unbegun.tokens_spent], ['blocked', 'draining', 0]);
  assert.equal(desk.told.at(-1)?.type, 'SESSION_BYE');
  assert.equal(executor.turns.length, 1);
});

test('a worker announces itself at its start, for the first task of a context and on request', async (t) => {
  const { desk, worker, ...rest } = await bench(t, { model: 'm-1', modelTier: 'sonnet', pools: ['fast'] });
  const first = await desk.message('SESSION_ANNOUNCE');
  assert.equal(first.worker.agent_id, 'w-1');
  assert.deepEqual(first.worker.pools, ['fast']);
  assert.deepEqual(first.capabilities.tools, ['terminal', 'file']);
  assert.equal(first.session?.incarnation, worker.incarnation);
  await rest.do(dispatch('t-1', { envelope: { context_id: 'c-1' } }));
  await rest.do(dispatch('t-2', { envelope: { context_id: 'c-1' } }));
  const ofContext = desk.told.filter((one) => one.type === 'SESSION_ANNOUNCE' && one.session?.context_id === 'c-1');
  assert.equal(ofContext.length, 1);
  assert.equal(ofContext[0]?.type === 'SESSION_ANNOUNCE' && ofContext[0].session?.session_fresh, true);
  const asked = await worker.announce('c-1');
  assert.equal(asked.session?.session_fresh, false, 'the executor knows it by now');
  assert.ok((asked.session?.seq ?? 0) > (first.session?.seq ?? 0));
});

test('a worker whose executor cannot work says why, and says so when it can again', async (t) => {
  let readiness: Readiness = { present: false, detail: 'no such program' };
  let monotonicMs = 0;
  const executor = scriptedExecutor(undefined, { readiness: () => readiness });
  const { desk } = await bench(t, { executor, monotonic: () => monotonicMs }, { checkMs: 5, debounceMs: 5 });
  const said = (code: string | undefined) =>
    desk.message('SESSION_ANNOUNCE', ({ session }) => session?.not_ready === code);
  const first = await said('executor_missing');
  assert.equal(first.session?.seq, 1);
  readiness = { present: true, authenticated: false, detail: 'no key' };
  monotonicMs += 120_000;
  await said('auth_required');
  readiness = { present: true, authenticated: true, detail: '' };
  monotonicMs += 120_000;
  await said(undefined);
});

test('a worker with more tools than a message may list announces as many as it may', async (t) => {
  const tools = Array.from({ length: MAX_NAMES + 44 }, (_, index) => `tool-${index}`);
  const { worker } = await bench(t, { tools });
  const announce = await worker.announce();
  assert.deepEqual(announce.capabilities.tools, tools.slice(0, MAX_NAMES));
  assert.ok(decodeValue(announce).valid);
});

test('a worker that has not started takes nothing', async (t) => {
  const { cwd } = await bench(t);
  const worker = await createWorker({
    agentId: 'w-2',
    executor: scriptedExecutor(),
    cwd,
    home: `${cwd}/second`,
    tools: [],
    log: silent,
  });
  t.after(() => worker.close());
  const desk = new Desk();
  const reception = await worker.receive(dispatch('t-1'), desk);
  assert.equal(reception.kind === 'refused' && reception.result.blocked?.code, 'draining');
});

test('one home is one worker', async (t) => {
  const { home, cwd } = await bench(t);
  const second = createWorker({ agentId: 'w-2', executor: scriptedExecutor(), cwd, home, tools: [], log: silent });
  await assert.rejects(second, { code: 'journal_locked' });
});

test('a worker is not made with a name or a folder it cannot have', async (t) => {
  const { cwd } = await bench(t);
  const given = { agentId: 'w-2', executor: scriptedExecutor(), cwd, home: `${cwd}/other`, tools: [], log: silent };
  for (const wrong of [{ agentId: 'two words' }, { cwd: 'relative' }, { home: './home' }, { cwd: `${cwd}/nowhere` }]) {
    await assert.rejects(createWorker({ ...given, ...wrong }), { code: 'config_invalid' });
  }
});

test('messages of a task reach an outlet that was never attached, and its result is tried there once', async (t) => {
  const { worker } = await bench(t);
  const desk = new Desk('passing');
  const reception = await worker.receive(dispatch('t-1'), desk);
  if (reception.kind === 'accepted') reception.start(LEASE);
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  assert.equal((await desk.result('t-1')).status, 'done');
});
