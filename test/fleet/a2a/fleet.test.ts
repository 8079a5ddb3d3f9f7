/** A fleet whose workers are all A2A agents: the orchestrator, real workers, and an agent that knows no fleet. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { TaskState } from '@a2a-js/sdk';
import { a2aBus } from '../../../src/fleet/bus/a2a/orchestrator-bus.ts';
import type { OrchestratorBus } from '../../../src/fleet/bus/peer.ts';
import type { PlainPeerOptions } from '../../../src/fleet/bus/plain/orchestrator-bus.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { createWorker, type Worker } from '../../../src/fleet/worker/worker.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { within } from '../../contract/recorder.ts';
import { block, scriptedExecutor } from '../support/scripted-executor.ts';
import { quiet } from '../support/stream-links.ts';
import { folder, served, TOKEN } from './agent-stand.ts';
import { plainAgent } from './plain-agent.ts';

async function workerOf(test: TestContext, agentId: string, executor: Executor): Promise<Worker> {
  const cwd = await folder(test);
  const worker = await createWorker({
    agentId,
    executor,
    tools: ['terminal'],
    cwd,
    home: join(cwd, 'home'),
    log: quiet,
  });
  await worker.start();
  test.after(() => worker.close());
  return worker;
}

/** Resolves when each of these has described itself. */
async function orchestratorOf(
  test: TestContext,
  peers: readonly PlainPeerOptions[],
  described: readonly string[] = ['w-1'],
): Promise<Orchestrator> {
  const bus = a2aBus({ peers, log: quiet, healthIntervalMs: 100, pollDelay: { firstDelayMs: 5, maxDelayMs: 50 } });
  const waiting = new Set([...described, ...peers.map(({ name }) => `${name} is there`)]);
  const ready = Promise.withResolvers<void>();
  const seen = (what: string): void => {
    waiting.delete(what);
    if (waiting.size === 0) ready.resolve();
  };
  const watched: OrchestratorBus = {
    binding: 'a2a',
    close: () => bus.close(),
    start: (events) =>
      bus.start({
        joined(peer) {
          events.joined(peer);
          if (peer.reachable) seen(`${peer.peerId} is there`);
        },
        received(peer, message) {
          const kept = events.received(peer, message);
          if (message.type === 'SESSION_ANNOUNCE') seen(peer.peerId);
          return kept;
        },
        malformed: (...told) => events.malformed(...told),
        left: (...told) => events.left(...told),
      }),
  };
  const orchestrator = createOrchestrator({
    name: 'boss',
    store: memoryTaskStore(),
    journal: memoryJournal(),
    buses: [watched],
    log: quiet,
  });
  await orchestrator.start();
  await within(ready.promise, 'the agents to be found');
  test.after(() => orchestrator.close());
  return orchestrator;
}

test('a task finds the A2A agent that fits it, runs under its budget and comes back with what was measured', async (context) => {
  const usage = { source: 'measured', input: 100, output: 20 } as const;
  const executor = scriptedExecutor(({ taskId }, { events }) => {
    events.progress('running', 'at it', 50);
    return { text: block(taskId, { summary: 'fixed', tokens_spent: 5 }), usage };
  });
  const worker = await workerOf(context, 'w-1', executor);
  const { address } = await served(context, worker);
  const agent = await plainAgent(context, ({ artifact, end }) => {
    artifact('Looked at it.');
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const orchestrator = await orchestratorOf(context, [
    { name: 'w-1', url: address, token: () => TOKEN },
    { name: 'plain', url: agent.address },
  ]);
  const first = await orchestrator.submit({
    brief: 'fix the typo',
    required_capabilities: ['terminal'],
    access: 'read',
    token_budget: 5_000,
  });
  const ended = await within(orchestrator.result(first.task_id), 'the first task');
  assert.deepEqual([ended.record.state, ended.record.worker], ['done', 'w-1']);
  assert.equal(ended.result?.tokens_spent, 120);
  assert.deepEqual(ended.result?.usage, { ...usage, claimed: 5 });
  assert.equal(ended.result?.prose, 'Here is what I did.');
  const second = await orchestrator.submit({ brief: 'have a look', worker: 'plain' });
  const other = await within(orchestrator.result(second.task_id), 'the second task');
  assert.deepEqual(
    [other.record.state, other.result?.prose, other.result?.tokens_spent],
    ['done', 'Looked at it.', null],
  );
  const modes = orchestrator.workers().map(({ peer_id, mode, binding, status }) => [peer_id, mode, binding, status]);
  assert.deepEqual(modes.sort(), [
    ['plain', 'inline', 'a2a', 'unverified'],
    ['w-1', 'structured', 'a2a', 'ready'],
  ]);
});

test('a running task is steered, cancelled, and reports what it had', async (context) => {
  const begun = Promise.withResolvers<void>();
  const executor = scriptedExecutor(async (_task, { signal }) => {
    begun.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return { text: 'half of it', ending: 'stopped' };
  });
  const worker = await workerOf(context, 'w-1', executor);
  const { address } = await served(context, worker);
  const orchestrator = await orchestratorOf(context, [{ name: 'w-1', url: address, token: () => TOKEN }]);
  const { task_id } = await orchestrator.submit({ brief: 'take your time', access: 'read' });
  await within(begun.promise, 'the turn to begin');
  await orchestrator.cancel(task_id, 'not wanted');
  const { record } = await within(orchestrator.result(task_id), 'the end');
  assert.equal(record.state, 'canceled');
  assert.equal(worker.activeTasks, 0);
});

test('a worker may have another A2A agent do its work', async (context) => {
  const agent = await plainAgent(context, ({ working, artifact, end, words }) => {
    working('on it');
    const id = /"task_id": "([^"]+)"/.exec(words)?.[1];
    artifact(block(id ?? '', { next_steps: ['ship it'] }));
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const executor = makeExecutor({ kind: 'a2a', url: agent.address }, { log: quiet });
  const worker = await workerOf(context, 'w-1', executor);
  const { address } = await served(context, worker);
  const orchestrator = await orchestratorOf(context, [{ name: 'w-1', url: address, token: () => TOKEN }]);
  const { task_id } = await orchestrator.submit({ brief: 'fix it', access: 'read' });
  const { record, result } = await within(orchestrator.result(task_id), 'the end');
  assert.deepEqual([record.state, result?.next_steps, result?.conformance], ['done', ['ship it'], 'strict']);
});
