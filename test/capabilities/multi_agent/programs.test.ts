/** Subagents that are programs: they have a session over their pipes, fetch tasks, and end with their subagent. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { SubagentBackend } from '../../../src/capabilities/multi_agent/backend.ts';
import { programBackend } from '../../../src/capabilities/multi_agent/programs.ts';
import { carriers, statOf } from '../../support/system-processes.ts';
import { siteOf, until } from './support.ts';

const program = fileURLToPath(new URL('child-agent.ts', import.meta.url));
const command = [process.execPath, '-C', 'handfast-source', program];
const kinds = [{ name: 'child', command }];

test('a program does tasks, reports, and ends with its subagent', { timeout: 120_000 }, async (t) => {
  process.env.SECRET_OF_HOST = 'no program of a kind gets it';
  t.after(() => delete process.env.SECRET_OF_HOST);
  const site = await siteOf(t, { kinds });
  const agent = await site.agent();
  const child = await agent.multi_agent.spawn('child');
  const first = await child.run('work');
  const pid = Number(first.result?.pid);
  assert.deepEqual(
    [first.status, first.result, first.score, first.usage?.tokens, first.usage?.cost_usd, first.usage?.steps],
    ['COMPLETED', { pid, id: child.id, secret: '' }, 0.75, 5, 0.5, 2],
  );
  const failed = await child.run('throw');
  assert.deepEqual([failed.status, failed.code, failed.error], ['FAILED', 'multi_agent.failed', 'no luck']);
  const called = await child.run('call', { metadata: { tool: 'look' } });
  assert.deepEqual(called.result, { data: { by: child.id, risk: 'reads' } });
  assert.equal((await child.run('hang', { timeoutSeconds: 0.2 })).code, 'multi_agent.timeout');
  assert.equal((await child.run('again')).result?.pid, pid);
  const [listed] = await agent.multi_agent.list();
  assert.match(listed?.session_id ?? '', /^[0-9a-f]{32}$/);
  await child.terminate();
  assert.equal(statOf(pid), undefined);
});

test('a program that exits or is killed fails its task and ends its subagent alone', {
  timeout: 120_000,
}, async (t) => {
  const site = await siteOf(t, { kinds });
  const agent = await site.agent();
  const [one, two, three] = await Promise.all(['one', 'two', 'three'].map((name) => agent.multi_agent.spawn(name)));
  const hanging = await three?.delegate('hang');
  const exited = await one?.run('exit');
  assert.deepEqual([exited?.status, exited?.code], ['FAILED', 'multi_agent.lost']);
  assert.match(exited?.error ?? '', /exited with code 3/);
  const killed = await two?.run('kill');
  assert.deepEqual([killed?.status, killed?.code], ['FAILED', 'multi_agent.lost']);
  assert.match(killed?.error ?? '', /SIGKILL/);
  await assert.rejects(async () => one?.delegate('more'), { code: 'multi_agent.ended' });
  const statuses = (await agent.multi_agent.list()).map(({ status }) => status);
  assert.deepEqual(statuses, ['FAILED', 'FAILED', 'RUNNING']);
  await three?.cancel();
  assert.equal((await three?.result({ taskId: hanging ?? '' }))?.code, 'multi_agent.cancelled');
  assert.equal((await three?.run('work'))?.status, 'COMPLETED');
});

test('a program that cannot be started refuses the spawn', async (t) => {
  const site = await siteOf(t, { kinds: [{ name: 'none', command: ['/no/such/program'] }] });
  const agent = await site.agent();
  await assert.rejects(agent.multi_agent.spawn('x'), { code: 'multi_agent.not_started' });
});

test('a subagent that ends while its program starts leaves neither the program nor its place', {
  timeout: 120_000,
}, async (t) => {
  const marker = `MARKED=${randomUUID()}`;
  const [name = '', value = ''] = marker.split('=');
  const own = programBackend({ command, env: { [name]: value } });
  const places: string[] = [];
  const backend: SubagentBackend = {
    name: own.name,
    open(facts, host) {
      const ended = new AbortController();
      const acquireProcess = async () => {
        places.push('taken');
        ended.abort(new Error('it ended'));
        return () => void places.push('given back');
      };
      return own.open(facts, { ...host, signal: ended.signal, acquireProcess });
    },
  };
  const site = await siteOf(t, { kinds: [{ name: 'program', backend }] });
  const agent = await site.agent();
  await assert.rejects(async () => agent.multi_agent.spawn('program'), { code: 'multi_agent.not_started' });
  assert.deepEqual(places, ['taken', 'given back']);
  await until(() => carriers(marker).length === 0);
});

test('a result that is longer than a message ends its task, also where the program hears no error', async (t) => {
  const command = [process.execPath, fileURLToPath(new URL('long-finish.mjs', import.meta.url))];
  const site = await siteOf(t, { kinds: [{ name: 'foreign', command }] });
  const agent = await site.agent();
  // Above the limit of a message, and above that of a result.
  for (const chars of [2_000_000, 400_000]) {
    const subagent = await agent.multi_agent.spawn('one');
    const { status, code } = await subagent.run('finish', { metadata: { chars } });
    assert.deepEqual([status, code], ['FAILED', 'multi_agent.limit'], String(chars));
  }
});
