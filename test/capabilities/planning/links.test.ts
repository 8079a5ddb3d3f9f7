/**
 * Subscriptions of plans over links that break: cut in the middle of messages, swallowed by a dead router, and of a host that
 * is killed and restarted. No entry is missing and none arrives twice. Also the claim over pipes to a host as a child.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { planningPlugin } from '../../../src/capabilities/planning/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { startRelay } from '../../support/relay.ts';
import { doorOf } from '../../support/sites.ts';

const ENTRIES = 120;
const transports = ['tcp', 'websocket', 'http'] as const;

for (const [transport, fault] of transports.flatMap((name) => [[name, 'cut'] as const, [name, 'swallow'] as const])) {
  test(`a follower over ${transport} that is ${fault === 'cut' ? 'cut at any byte' : 'swallowed and cut'} gets every entry once`, {
    timeout: 180_000,
  }, async (t) => {
    const host = createHost({ plugins: [planningPlugin()], journal: memoryJournal() });
    await host.start();
    t.after(() => host.close(0));
    const door = await doorOf(transport, host, {}, ['127.0.0.1']);
    t.after(() => door.close());
    const address = new URL(door.address ?? assert.fail('it listens'));
    let budget = 900;
    const relay = await startRelay({ host: address.hostname, port: Number(address.port) }, () => {
      budget += 700;
      return fault === 'cut' ? budget : Number.POSITIVE_INFINITY;
    });
    t.after(() => relay.close());
    await using writer = await connect(host, { capabilities: ['planning'], agentId: 'writer' });
    const { plan_id } = await writer.planning.createPlan('release');
    const { task_id } = await writer.planning.add(plan_id, 'Write');
    address.port = String(relay.port);
    await using follower = await connect(address.href, {
      capabilities: ['planning'],
      agentId: 'follower',
      reconnect: { livenessTimeoutMs: 500 },
    });
    const seen: number[] = [];
    const all = (async () => {
      for await (const { seq } of follower.planning.watch(plan_id, { after: 0 })) {
        seen.push(seq);
        if (seen.length >= ENTRIES + 2) return;
      }
    })();
    for (let at = 0; at < ENTRIES; at += 1) {
      if (fault === 'swallow' && at % 40 === 20) {
        relay.swallowing = true;
        await pause(50);
        await writer.planning.comment(plan_id, task_id, `comment ${at}`);
        await pause(700);
        relay.swallowing = false;
        relay.cut();
      } else await writer.planning.comment(plan_id, task_id, `comment ${at}`);
      if (at % 10 === 0) await pause(10);
    }
    await all;
    assert.deepEqual(
      seen,
      Array.from({ length: ENTRIES + 2 }, (_, at) => at + 1),
    );
    assert.ok(relay.connections > 2, `${relay.connections} connections`);
    if (fault === 'cut') assert.ok(relay.cuts > 1, `${relay.cuts} cuts`);
  });
}

test('a follower that remembers the last entry misses none when its host is killed and started again', {
  timeout: 180_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-planning-'));
  const socket = join(folder, 'socket');
  const flags = ['-C', 'handfast-source', '--import', join(import.meta.dirname, '../../preload.ts')];
  const start = async () => {
    const child = spawn(
      process.execPath,
      [...flags, join(import.meta.dirname, 'kill/host.ts'), socket, join(folder, 'state.db')],
      { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
    );
    await once(child, 'message');
    return child;
  };
  const killed = async (): Promise<void> => {
    const exited = once(host, 'exit');
    host.kill('SIGKILL');
    await exited;
  };
  let host = await start();
  t.after(async () => {
    await killed();
    rmSync(folder, { recursive: true, force: true });
  });
  const open = (agentId: string) =>
    connect(`unix://${socket}`, { capabilities: ['planning'], agentId, reconnect: { maxMs: 1 }, timeoutMs: 20_000 });
  /** Repeats until it returns, over as many hosts as necessary. */
  const through = async <T>(run: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await run();
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        await pause(30);
      }
    }
  };
  const { plan_id, task_id } = await through(async () => {
    await using agent = await open('writer');
    const plan = await agent.planning.createPlan('release', { key: 'one' });
    return await agent.planning.add(plan.plan_id, 'Write', { key: 'one' });
  });
  const seen: { seq: number; comment: string | undefined }[] = [];
  const wanted = 60;
  const follow = through(async () => {
    await using agent = await open('follower');
    for await (const { seq, comment } of agent.planning.watch(plan_id, { after: seen.at(-1)?.seq ?? 0 })) {
      seen.push({ seq, comment });
      if (comment === `comment ${wanted - 1}`) return;
    }
    throw new Error('the stream ended');
  });
  const acknowledged: string[] = [];
  const write = through(async () => {
    await using agent = await open('writer');
    while (acknowledged.length < wanted) {
      const text = `comment ${acknowledged.length}`;
      await agent.planning.comment(plan_id, task_id, text);
      acknowledged.push(text);
    }
  });
  for (let kills = 1; kills <= 3; kills += 1) {
    while (acknowledged.length < kills * 15) await pause(5);
    await killed();
    host = await start();
  }
  await Promise.all([write, follow]);
  assert.deepEqual(
    seen.map(({ seq }) => seq),
    Array.from(seen, (_, at) => at + 1),
  );
  // A comment that was written when the host was killed may exist twice: its acknowledgement was lost.
  const comments = seen.flatMap(({ comment }) => comment ?? []);
  assert.deepEqual([...new Set(comments)], acknowledged);
});

test('a plan is claimed and followed over pipes', { timeout: 60_000 }, async () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-planning-'));
  const main = join(import.meta.dirname, '../../../src/cli/main.ts');
  try {
    await using agent = await connect(`stdio:${process.execPath} -C handfast-source ${main} stdio`, {
      capabilities: ['planning'],
      env: { ...process.env, HANDFAST_HOME: home },
    });
    const { planning } = agent;
    const { plan_id } = await planning.createPlan('release');
    const task = await planning.add(plan_id, 'Write');
    const claim = await planning.claim(plan_id, { waitMs: 1_000 });
    assert.equal(claim?.id, task.task_id);
    await claim?.done('over pipes');
    const actions: string[] = [];
    for await (const { action, comment } of planning.watch(plan_id, { after: 0 })) {
      actions.push(action);
      if (comment === 'over pipes') break;
    }
    assert.deepEqual(actions, ['created', 'created', 'claimed', 'updated']);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
