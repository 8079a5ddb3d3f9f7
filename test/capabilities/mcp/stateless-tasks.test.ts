/**
 * Servers of the generation without sessions that reply to calls with tasks: followed to their end, with questions, cancel and
 * loss.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ServerSettings } from '../../../src/capabilities/mcp/spec.ts';
import { agentOf, errorOf, folder, mcpHost, until } from './support.ts';

const program = fileURLToPath(new URL('../../support/mcp-stateless-tasks.mjs', import.meta.url));

type Transport = 'stdio' | 'HTTP';

async function overHttp(t: TestContext, cwd: string): Promise<string> {
  const child: ChildProcess = spawn(process.execPath, [program, 'HTTP'], { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [port] = await once(child.stdout as NonNullable<ChildProcess['stdout']>, 'data');
  return `http://127.0.0.1:${String(port).trim()}/mcp`;
}

async function tasks(t: TestContext, transport: Transport, more: Partial<ServerSettings> = {}) {
  const cwd = folder(t);
  writeFileSync(join(cwd, 'ASKED'), '');
  const where =
    transport === 'stdio' ? { command: process.execPath, args: [program] } : { url: await overHttp(t, cwd) };
  const settings = { name: 'tasks', cwd, mayAsk: ['elicitation'] as const, ...where, ...more };
  const host = await mcpHost(t, { mcp: { servers: [settings] } });
  const agent = await agentOf(t, host);
  const asked = (): string[] => readFileSync(join(cwd, 'ASKED'), 'utf8').trim().split('\n');
  const count = (method: string): number => asked().filter((line) => line.includes(` ${method}`)).length;
  const end = (): void => writeFileSync(join(cwd, 'DONE'), '');
  return { host, agent, count, end, pid: () => Number(asked()[0]?.split(' ')[0]) };
}

for (const transport of ['stdio', 'HTTP'] as const) {
  test(`a call that is answered with a task gives its result, and the messages of the task are progress (${transport})`, async (t) => {
    const { agent, count, end } = await tasks(t, transport, { timeoutS: 30 });
    const calling = agent.mcp.call('tasks', 'work');
    const seen: unknown[] = [];
    for await (const { kind, data } of calling) {
      if (kind !== 'progress') continue;
      seen.push(data.message);
      if (data.message === 'part 3') end();
    }
    assert.equal((await calling).summary, 'worked');
    assert.deepEqual(seen, ['part 0', 'part 1', 'part 2', 'part 3']);
    assert.deepEqual([count('tools/call'), count('tasks/cancel'), count('WRONG')], [1, 0, 0]);
    assert.equal((await agent.tools.call('tasks__work', {})).summary, 'worked');
  });

  test(`what a task asks is asked once each, of the agent of its call (${transport})`, async (t) => {
    const { host, agent, count } = await tasks(t, transport);
    const other = await agentOf(t, host, { agentId: 'bo' });
    const asked: string[] = [];
    for (const [each, name] of [
      [agent, 'ana'],
      [other, 'bo'],
    ] as const) {
      each.mcp.onElicitation(({ message }) => {
        asked.push(`${name} ${message}`);
        return { action: 'accept', content: { name: `${name}${message.length}` } };
      });
    }
    const [first, second] = await Promise.all([agent.mcp.call('tasks', 'asks'), other.mcp.call('tasks', 'asks')]);
    assert.deepEqual([first.summary, second.summary], ['Hello ana10 and ana11', 'Hello bo10 and bo11']);
    const all = ['ana the first?', 'ana the second?', 'bo the first?', 'bo the second?'];
    assert.deepEqual(asked.toSorted(), all);
    assert.deepEqual([count('tasks/update'), count('tasks/cancel'), count('WRONG')], [4, 0, 0]);
  });

  test(`a task that fails, that its server cancels or forgets is a failure of the call (${transport})`, async (t) => {
    const { agent, count } = await tasks(t, transport);
    for (const [name, reason] of [
      ['fails', /no luck/],
      ['leaves', /nothing to do/],
      ['forgets', /the task was lost: no task t/],
    ] as const) {
      const { code, message } = await errorOf(agent.mcp.call('tasks', name));
      assert.equal(code, name === 'fails' ? 'schema_violation' : 'mcp_protocol_error');
      assert.match(message, reason);
    }
    assert.equal(count('WRONG'), 0);
  });

  test(`a call that is cancelled, refused an answer or over its time cancels the task (${transport})`, async (t) => {
    const { agent, count } = await tasks(t, transport, { timeoutS: 1 });
    const calling = agent.mcp.call('tasks', 'work');
    const failed = errorOf(calling);
    await until(() => count('tasks/get') > 0);
    calling.cancel();
    assert.equal((await failed).code, 'cancelled');
    await until(() => count('tasks/cancel') === 1);
    // The messages of this task stay the same from its third on.
    const { code, detail } = await errorOf(agent.mcp.call('tasks', 'work'));
    assert.deepEqual([code, detail.may_have_run], ['timeout', true]);
    await until(() => count('tasks/cancel') === 2);
    assert.equal((await errorOf(agent.mcp.call('tasks', 'asks'))).code, 'mcp_sampling_refused');
    await until(() => count('tasks/cancel') === 3);
    assert.equal(count('WRONG'), 0);
  });

  test(`a server killed while a task works: the call says that it may have run, and is not made again (${transport})`, async (t) => {
    const { agent, count, pid } = await tasks(t, transport);
    const failed = errorOf(agent.mcp.call('tasks', 'work'));
    await until(() => count('tasks/get') > 0);
    process.kill(pid(), 'SIGKILL');
    const { code, detail } = await failed;
    assert.deepEqual([code, detail.may_have_run], ['mcp_transport_error', true]);
    assert.equal(count('tools/call'), 1);
  });
}
