/**
 * Subagents that executors of the fleet run: each a conversation, each task a turn, with rights, budget and ends as for all
 * others.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { TaskState } from '@a2a-js/sdk';
import { connect } from '../../../src/connect.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { serve } from '../../../src/serve.ts';
import { backendOf } from '../../../src/server/subagents.ts';
import { plainAgent } from '../../fleet/a2a/plain-agent.ts';
import { forever, siteOf, until } from './support.ts';

const HOME = process.env.HANDFAST_HOME;

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
  process.env.HANDFAST_HOME = join(folder, 'home');
  const server = await serve(file, { announce: false });
  t.after(async () => {
    await server.close(0);
    if (HOME === undefined) delete process.env.HANDFAST_HOME;
    else process.env.HANDFAST_HOME = HOME;
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

test('a remote agent of A2A does tasks, refuses one, is cancelled and dies: each task has one end', {
  timeout: 120_000,
}, async (t) => {
  const cancelled = Promise.withResolvers<void>();
  const remote = await plainAgent(t, async ({ words, working, artifact, end, canceled }) => {
    working('reading');
    if (words.includes('refuse')) return end(TaskState.TASK_STATE_REJECTED, 'not my trade');
    if (words.includes('wait')) {
      await canceled;
      end(TaskState.TASK_STATE_CANCELED);
      return cancelled.resolve();
    }
    artifact(`did ${words}`);
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const home = mkdtempSync(join(tmpdir(), 'subagents-a2a-'));
  const mortal = spawn(process.execPath, [
    ...process.execArgv,
    join(import.meta.dirname, '../../fleet/a2a/agent-process.ts'),
    home,
  ]);
  t.after(() => {
    mortal.kill('SIGKILL');
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const [line] = (await once(mortal.stdout, 'data')) as [Buffer];
  const agent = await agentOf(t, [
    { name: 'remote', executor: { kind: 'a2a', url: remote.address } },
    { name: 'mortal', executor: { kind: 'a2a', url: String(line).trim() } },
  ]);
  const ends: string[] = [];
  agent.multi_agent.onEvent(({ subagentId, event, content }) => {
    if (content.task_id !== undefined && ENDS.has(event)) ends.push(`${subagentId} ${event}`);
  });
  const one = await agent.multi_agent.spawn('one', { kind: 'remote' });
  assert.deepEqual((await one.run('this')).result, { summary: 'did this' });
  const refused = await one.run('refuse this');
  assert.deepEqual([refused.status, refused.code], ['FAILED', 'tool_error']);
  assert.match(String(refused.error), /not my trade/);
  await one.delegate('wait');
  await until(() => remote.heard.length === 3);
  assert.equal(await one.cancel(), true);
  await cancelled.promise;
  assert.deepEqual((await one.run('that')).result, { summary: 'did that' });

  const two = await agent.multi_agent.spawn('two', { kind: 'mortal' });
  const lost = await two.delegate('never ends');
  await until(async () =>
    (await agent.multi_agent.list()).some(({ task, status }) => task === 'never ends' && status === 'RUNNING'),
  );
  await until(() => existsSync(join(home, 'a2a.db')));
  const dead = once(mortal, 'exit');
  mortal.kill('SIGKILL');
  await dead;
  const outcome = await two.result({ taskId: lost });
  assert.equal(outcome.status, 'FAILED');
  // The stuck or dead one costs the other nothing.
  assert.deepEqual((await one.run('more')).result, { summary: 'did more' });
  await until(() => ends.length === 6);
  assert.deepEqual(
    ends.filter((end) => end.startsWith(two.id)),
    [`${two.id} failed`],
  );
});

test('what a reply claims to have changed is verified as in a fleet', { timeout: 120_000 }, async (t) => {
  const workspace = mkdtempSync(join(tmpdir(), 'subagents-verified-'));
  t.after(() => rmSync(workspace, { recursive: true, force: true }));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.invalid', ...args], { cwd: workspace });
  writeFileSync(join(workspace, 'old.txt'), 'old');
  git('init', '-q');
  git('add', '.');
  git('commit', '-qm', 'first');
  const executor = functionExecutor({
    async run({ prompt, taskId }) {
      const claim = (file: string) =>
        JSON.stringify({
          type: 'TASK_RESULT',
          task_id: taskId,
          status: prompt.includes('blocked') ? 'blocked' : 'done',
          blocked_reason: prompt.includes('blocked') ? 'no_access: none' : null,
          tokens_spent: 1,
          next_steps: ['go on'],
          artifacts: { pr: null, files_changed: [file] },
        });
      if (prompt.includes('really')) writeFileSync(join(workspace, 'new.txt'), 'new');
      return { text: claim(prompt.includes('really') ? 'new.txt' : 'missing.txt') };
    },
  });
  const site = await siteOf(t, { kinds: [{ name: 'fleet', backend: backendOf(executor) }] }, undefined, { workspace });
  const agent = await site.agent();
  const one = await agent.multi_agent.spawn('one');
  assert.equal((await one.run('really')).verified, 'yes');
  const lied = await one.run('lie');
  assert.deepEqual([lied.status, lied.verified], ['COMPLETED', 'no']);
  assert.match(JSON.stringify(lied.result), /missing.txt does not exist/);
  const blocked = await one.run('blocked');
  assert.deepEqual([blocked.status, blocked.verified], ['FAILED', undefined]);
});

const ENDS = new Set(['completed', 'failed', 'cancelled', 'terminated']);
