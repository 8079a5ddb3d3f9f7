/**
 * Running programs of principals have shares: past its share a principal's calls wait, then are refused, and the others
 * are served meanwhile. For the shell, and for agents behind sessions with the MCP servers that these start.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HandfastError } from '../../src/wire/errors.ts';
import { scriptFolder } from '../agents/acp/scripted-agent.ts';
import { sharesServer } from './shares-server.ts';

const SHARE = 2;
const QUEUE = 16;
const LIMITS = `limits: { max_parallel: 64, max_processes: 6, max_processes_per_principal: ${SHARE} }\n`;

test('a principal that fills its share of processes waits and is refused, the others run theirs, and it again', async (t) => {
  const shell = 'capabilities: [tools], tools: { allow: [shell] }, limits: { max_parallel: 64 }';
  const server = await sharesServer(t, { greedy: shell, other: shell }, LIMITS);
  for (const round of ['first', 'after a restart']) {
    const greedy = await server.agent('greedy');
    const other = await server.agent('other');
    const giveUp = new AbortController();
    const refusals: HandfastError[] = [];
    const calls = Array.from({ length: SHARE + QUEUE + 5 }, () =>
      greedy.tools.call('shell', { argv: ['sleep', '600'] }, { signal: giveUp.signal, timeoutMs: 0 }).catch((error) => {
        if (error.code === 'over_capacity') refusals.push(error);
      }),
    );
    const full = await server.until('processes', ({ used, refused }) => used === SHARE && refused === 5);
    assert.deepEqual(full.principals, { greedy: SHARE }, round);
    const { data } = await other.tools.call('shell', { argv: ['echo', 'served'] });
    assert.equal((data as { stdout: string }).stdout, 'served\n');
    giveUp.abort();
    await Promise.all(calls);
    assert.equal(refusals.length, 5);
    for (const { retryable, detail } of refusals) {
      assert.ok(retryable && Number(detail.retry_after_ms) > 0);
      assert.equal(detail.share, 'processes');
    }
    await server.until('processes', ({ used }) => used === 0);
    await greedy.tools.call('shell', { argv: ['true'] });
    await Promise.all([greedy.close(), other.close()]);
    await server.restart();
  }
});

test('an agent behind a session counts in the share of its owner, with the MCP servers it starts', async (t) => {
  using files = scriptFolder();
  const script = { prompts: Array.from({ length: 8 }, () => [{ stop: 'end_turn' }]) };
  const agent = { name: 'scripted', command: process.execPath, args: files.args(script) };
  const client = 'roles: [client], backends: [scripted], mcp_servers: ["*"]';
  const server = await sharesServer(
    t,
    { greedy: client, other: client },
    `${LIMITS}control: { agents: [${JSON.stringify(agent)}] }\n`,
  );
  const session = async (name: string, servers: number) => {
    const control = await server.client(name);
    t.after(() => control.close());
    const mcpServers = Array.from({ length: servers }, (_, at) => ({ name: `m${at}`, command: 'true', args: [] }));
    return control.create({ backend: 'scripted', mcpServers });
  };
  const prompt = async (of: Awaited<ReturnType<typeof session>>) => {
    const { stopReason, error } = await (await of.prompt('go')).result();
    if (error !== undefined) throw error;
    return stopReason;
  };
  for (const round of ['first', 'after a restart']) {
    const [one, two, three] = [await session('greedy', 0), await session('greedy', 0), await session('greedy', 0)];
    assert.deepEqual([await prompt(one), await prompt(two)], ['end_turn', 'end_turn'], round);
    assert.deepEqual((await server.share('processes')).principals, { greedy: SHARE });
    // The agent that was idle longest makes room for another one of its owner.
    assert.equal(await prompt(three), 'end_turn');
    assert.deepEqual((await server.share('processes')).principals, { greedy: SHARE });
    const wide = await session('greedy', SHARE);
    await assert.rejects(prompt(wide), (error: HandfastError) => {
      assert.equal(error.code, 'over_capacity');
      assert.equal(error.retryable, true);
      return true;
    });
    assert.equal(await prompt(await session('other', SHARE - 1)), 'end_turn');
    const usage = await server.share('processes');
    assert.deepEqual([usage.principals, usage.refused], [{ greedy: SHARE, other: SHARE }, 1]);
    await server.restart();
  }
});
