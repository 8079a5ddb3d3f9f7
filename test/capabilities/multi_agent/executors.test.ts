/** Subagents that executors of the fleet run: each a conversation, each task a turn, with rights, budget and ends as for all others. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { serve } from '../../../src/serve.ts';
import { backendOf } from '../../../src/server/subagents.ts';
import { forever, siteOf, until } from './support.ts';

/** An agent of a server whose configuration has these kinds. */
async function agentOf(t: TestContext, kinds: readonly object[]) {
  const folder = mkdtempSync(join(tmpdir(), 'subagents-executors-'));
  const config = {
    listen: [`unix://${join(folder, 'socket')}`],
    plugins: [{ use: 'multi_agent', options: { kinds } }],
  };
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, JSON.stringify(config));
  writeFileSync(join(folder, 'README.md'), 'one\ntwo\n');
  const home = process.env.HANDFAST_HOME;
  process.env.HANDFAST_HOME = join(folder, 'home');
  const server = await serve(file, { announce: false });
  t.after(async () => {
    await server.close(0);
    if (home === undefined) delete process.env.HANDFAST_HOME;
    else process.env.HANDFAST_HOME = home;
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const token = readFileSync(server.tokenFile ?? '', 'utf8').trim();
  const agent = await connect(server.listeners[0] ?? '', { capabilities: ['multi_agent'], token });
  t.after(() => agent.close());
  return agent;
}

test('programs and the rehearsal of a configuration do tasks', { timeout: 120_000 }, async (t) => {
  const script = "process.stdout.write('got ' + process.argv[1])";
  const agent = await agentOf(t, [
    { name: 'rehearsal', executor: { kind: 'rehearsal' } },
    { name: 'program', executor: { kind: 'command', command: process.execPath, args: ['-e', script, '{prompt}'] } },
    { name: 'none', executor: { kind: 'command', command: '/no/such/program' } },
  ]);
  assert.deepEqual(
    (await agent.multi_agent.kinds()).map(({ kind, backend }) => [kind, backend]),
    [
      ['rehearsal', 'rehearsal'],
      ['program', 'command'],
      ['none', 'command'],
    ],
  );
  const rehearsal = await agent.multi_agent.spawn('r', { kind: 'rehearsal' });
  const said = await rehearsal.run('say "hello"');
  assert.equal(said.status, 'COMPLETED');
  assert.match(String(said.result?.summary), /hello/);
  const failed = await rehearsal.run('fail "no luck"');
  assert.equal(failed.status, 'FAILED');
  const waiting = await rehearsal.delegate('wait 60000 ms');
  assert.equal(await rehearsal.cancel(), true);
  assert.equal((await rehearsal.result({ taskId: waiting })).code, 'multi_agent.cancelled');
  assert.match(String((await rehearsal.run('say "again"')).result?.summary), /again/);
  const poor = await agent.multi_agent.spawn('p', { kind: 'rehearsal', budget: { tokens: 50 } });
  assert.equal((await poor.run('spend 5000 tokens')).code, 'multi_agent.budget_spent');

  const program = await agent.multi_agent.spawn('c', { kind: 'program', role: 'echo', systemPrompt: 'Be brief.' });
  const { result } = await program.run('say this', { criteria: ['it was said'] });
  assert.equal(result?.summary, 'got Be brief.\n\nYour role: echo.\n\nsay this\n\nIt is done when:\n- it was said');
  await assert.rejects(agent.multi_agent.spawn('n', { kind: 'none' }), { code: 'multi_agent.not_started' });
});

test('a kind with neither a program nor an executor, or with both, is a mistake of the configuration', async (t) => {
  for (const kind of [{ name: 'x' }, { name: 'x', command: ['a'], executor: { kind: 'rehearsal' } }]) {
    await assert.rejects(agentOf(t, [kind]), { code: 'config_invalid' });
  }
});

test('a turn reports progress and usage, reads only with fewer tools, and stops', async (t) => {
  const seen: string[] = [];
  const executor = functionExecutor({
    async run({ prompt, access, tokenBudget }, { events, signal }) {
      seen.push(`${access} ${tokenBudget}`);
      events.progress('reading', 'half', 50);
      events.usage({ source: 'provider', input: 10, output: 5, cost_usd: 0.5 });
      const answer = await events.ask({ kind: 'question', title: 'May I?' });
      if (prompt.includes('wait')) return forever({ signal });
      return { text: `allowed: ${answer.allowed}`, usage: { source: 'provider', input: 20, output: 10, cost_usd: 1 } };
    },
  });
  const site = await siteOf(t, { kinds: [{ name: 'fleet', backend: backendOf(executor) }] });
  const agent = await site.agent();
  const notices: unknown[] = [];
  agent.multi_agent.onEvent(
    ({ event, content }) => event === 'progress' && notices.push([content.message, content.pct]),
  );
  const one = await agent.multi_agent.spawn('one', { budget: { tokens: 100 } });
  const done = await one.run('work');
  assert.deepEqual([done.result, done.usage?.tokens, done.usage?.cost_usd], [{ summary: 'allowed: false' }, 30, 1]);
  await until(() => notices.length === 1);
  assert.deepEqual(notices, [['half', 50]]);
  const two = await agent.multi_agent.spawn('two', { toolScope: 'restricted' });
  await two.delegate('wait');
  await until(() => seen.length === 2);
  assert.equal(await two.terminate(), true);
  assert.deepEqual(seen, ['write 100', 'read null']);
});
