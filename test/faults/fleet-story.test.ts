/**
 * The five problems the fleet handshake was proposed for, each with the same agent before and after: before, its
 * receiver accepts any text; after, four workers of different tiers on real git repositories, one with a dead MCP
 * server, and that same old receiver among them. Tokens are counted by the agent as it spends them. Prints the table.
 */
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { httpPeerBus } from '../../src/fleet/bus/http/orchestrator-bus.ts';
import { inProcessBus } from '../../src/fleet/bus/in-process.ts';
import { functionExecutor } from '../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../src/fleet/orchestrator/orchestrator.ts';
import { sqliteTaskStore } from '../../src/fleet/orchestrator/store-sqlite.ts';
import type { TaskSpec } from '../../src/fleet/orchestrator/task.ts';
import { createWorker } from '../../src/fleet/worker/worker.ts';
import type { WorkerOptions } from '../../src/fleet/worker/worker-options.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { git, repository } from '../fleet/support/git-repository.ts';
import { quiet } from '../fleet/support/stream-links.ts';
import { UpstreamReceiver } from '../fleet/support/upstream-receiver.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

/** Longest wait for anything: far above the usual duration on a busy machine. */
const PATIENCE_MS = 60_000;

const MCP_SERVER = join(import.meta.dirname, '../fleet/support/mcp-server.mjs');

/** The agent's properties at one place. */
interface Place {
  readonly tier: string;
  readonly contextMode: 'alive' | 'dead' | 'none';
  readonly cwd: string;
  /** Counts tokens; rejects when it is stopped. */
  spend(tokens: number): Promise<void>;
}

/**
 * Returns the agent of this story: the same before and after. It does the requested work, and reports in the requested
 * form.
 */
async function agent(prompt: string, { tier, contextMode, cwd, spend }: Place): Promise<string> {
  const taskId = /"task_id": ?"([^"]+)"/.exec(prompt)?.[1];
  const told = (status: string, more: object = {}): string =>
    taskId === undefined
      ? ''
      : `\n\`\`\`json\n${JSON.stringify({ type: 'TASK_RESULT', protocol_version: '2.0', task_id: taskId, status, ...more })}\n\`\`\``;
  await spend(300);
  if (prompt.includes('context-mode')) {
    // The agent finds out when it needs the server.
    await spend(1_500);
    if (contextMode !== 'alive')
      return `I looked around, but context-mode does not answer, so I had to stop.${told('error', { error_summary: 'context-mode is dead' })}`;
    return `Summarised.${told('done')}`;
  }
  if (prompt.includes('locking')) {
    await spend(2_000);
    return `A new design, by ${tier}.${told('done', { summary: `by ${tier}` })}`;
  }
  if (prompt.includes('changelog')) {
    appendFileSync(join(cwd, 'CHANGELOG.md'), 'a line\n');
    await spend(400);
    return `All done! I touched the changelog, I believe, and maybe a pull request makes sense.${told('done', { artifacts: { files_changed: ['CHANGELOG.md'] } })}`;
  }
  if (prompt.includes('everything')) {
    for (let step = 0; step < 40; step += 1) await spend(250);
    return `Read it all.${told('done')}`;
  }
  await spend(200);
  return `ok${told('done')}`;
}

/** Hands text to a receiver, as was done before. */
async function sendPlain(url: string, text: string, contextId: string): Promise<string> {
  const answer = await fetch(`${url}/jsonrpc`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'message/send',
      params: { message: { role: 'user', parts: [{ text }], contextId } },
    }),
  });
  const { result } = (await answer.json()) as { result: { message: { parts: { text: string }[] } } };
  return result.message.parts[0]?.text ?? '';
}

test('five problems before and after, tokens counted', { timeout: 240_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const spent = { now: 0 };
  const spending = (): number => {
    const before = spent.now;
    spent.now = 0;
    return before;
  };

  // Before: a receiver that takes text, with a small model and a dead server. One turn at a time, in the order of
  // arrival.
  const order: string[] = [];
  let last: Promise<unknown> = Promise.resolve();
  const old = await new UpstreamReceiver({
    agent: (prompt) => {
      const turn = last.then(async () => {
        const text = await agent(prompt, {
          tier: 'haiku',
          contextMode: 'dead',
          cwd: folder,
          spend: async (tokens) => {
            spent.now += tokens;
            await pause(1);
          },
        });
        const name = /small task (\w+)/.exec(prompt)?.[1];
        if (name !== undefined) order.push(name);
        return text;
      });
      last = turn;
      return turn;
    },
  }).listen();
  t.after(() => old.close());

  // After: four workers, and the same receiver.
  const workers = await Promise.all(
    (
      [
        ['haiku-1', 'haiku', 'none'],
        ['sonnet-dead', 'sonnet', 'dead'],
        ['sonnet-1', 'sonnet', 'alive'],
        ['opus-1', 'opus', 'none'],
      ] as const
    ).map(async ([agentId, modelTier, contextMode]) => {
      const cwd = join(folder, agentId);
      await repository(cwd);
      const args = contextMode === 'alive' ? ['tools', 'index'] : ['slow'];
      const options: WorkerOptions = {
        agentId,
        modelTier,
        cwd,
        home: join(folder, `${agentId}-home`),
        tools: ['terminal', 'file'],
        maxConcurrent: 1,
        mcpServers:
          contextMode === 'none'
            ? []
            : [{ name: 'context-mode', stdio: { command: process.execPath, args: [MCP_SERVER, ...args] } }],
        executor: functionExecutor({
          run: async ({ prompt }, { signal, events }) => {
            let total = 0;
            const text = await agent(prompt, {
              tier: modelTier,
              contextMode,
              cwd,
              async spend(tokens) {
                signal.throwIfAborted();
                total += tokens;
                spent.now += tokens;
                events.usage({ source: 'measured', input: total, output: 0 });
                await pause(1);
              },
            });
            const name = /small task (\w+)/.exec(prompt)?.[1];
            if (name !== undefined) order.push(name);
            return { text, usage: { source: 'measured', input: total, output: 0 } };
          },
        }),
        log: quiet,
      };
      // The dead one never answers; the other one has all the time a busy machine takes to start it.
      const worker = await createWorker(options, { probeMs: contextMode === 'dead' ? 500 : PATIENCE_MS });
      await worker.start();
      t.after(() => worker.close());
      return worker;
    }),
  );
  const orchestrator = createOrchestrator({
    name: 'story',
    store: await sqliteTaskStore({ file: join(folder, 'tasks.db') }),
    journal: memoryJournal(),
    buses: [
      inProcessBus(workers),
      httpPeerBus({ name: 'story', peers: [{ name: 'old-claude', url: old.url }], log: quiet }),
    ],
    repositories: new Map(workers.map(({ agentId }) => [agentId, join(folder, agentId)])),
    joinGraceMs: 0,
    log: quiet,
  });
  await orchestrator.start();
  t.after(() => orchestrator.close());
  const run = async (spec: TaskSpec) => {
    const { task_id } = await orchestrator.submit(spec);
    return (await orchestrator.result(task_id, AbortSignal.timeout(PATIENCE_MS))).record;
  };
  const table: [string, string, string][] = [];

  // 1. A dead MCP server is found out after the tokens are spent.
  const blind = await sendPlain(old.url, 'Summarise the code with context-mode.', 'c1');
  assert.match(blind, /does not answer/);
  const wasted = spending();
  const alive = await run({ brief: 'Summarise the code with context-mode.', required_mcp: ['context-mode'] });
  assert.deepEqual([alive.state, alive.worker], ['done', 'sonnet-1']);
  assert.match(alive.explanation?.sentence ?? '', /context_mode/);
  const useful = spending();
  const refused = await run({
    brief: 'Summarise the code with context-mode.',
    required_mcp: ['context-mode'],
    worker: 'haiku-1',
  });
  assert.deepEqual([refused.state, refused.parked, refused.tokens_spent, spending()], ['blocked', true, 0, 0]);
  table.push([
    '1 MCP health',
    `${wasted} tokens for nothing`,
    `${useful} tokens at ${alive.worker}; no worker able: refused, 0 tokens`,
  ]);

  // 2. Work that needs a strong model goes to any worker.
  const weak = await sendPlain(old.url, 'Redesign the locking.', 'c2');
  assert.match(weak, /by haiku/);
  const dull = spending();
  const strong = await run({ brief: 'Redesign the locking.', min_tier: 'opus' });
  assert.deepEqual([strong.state, strong.worker, strong.result?.summary], ['done', 'opus-1', 'by opus']);
  table.push(['2 model tier', `${dull} tokens by haiku`, `${spending()} tokens by ${strong.worker}, as asked`]);

  // 3. The outcome has to be guessed from prose.
  const prose = await sendPlain(old.url, 'Add a line to the changelog.', 'c3');
  assert.doesNotMatch(prose, /TASK_RESULT/);
  spending();
  const known = await run({ brief: 'Add a line to the changelog.' });
  assert.equal(known.state, 'done');
  assert.deepEqual(known.result?.artifacts?.files_changed, ['CHANGELOG.md']);
  let checked = known;
  for (const give = AbortSignal.timeout(PATIENCE_MS); checked.verified === null; await pause(10)) {
    give.throwIfAborted();
    checked = await orchestrator.get(known.task_id);
  }
  assert.equal(checked.verified, 'yes', checked.verification.join());
  assert.match(await git(join(folder, known.worker as string), 'status', '--porcelain'), /CHANGELOG/);
  spending();
  table.push(['3 output', 'prose: "I believe, and maybe"', 'done, files: CHANGELOG.md, verified against git: yes']);

  // 4. No budget limits the work.
  await sendPlain(old.url, 'Read everything.', 'c4');
  const lavish = spending();
  const bounded = await run({ brief: 'Read everything.', token_budget: 2_000, access: 'read' });
  assert.equal(bounded.state, 'partial');
  assert.ok((bounded.result?.next_steps ?? []).length > 0);
  const frugal = spending();
  assert.ok(frugal < 2_600, `${frugal} tokens of 2,000`);
  table.push(['4 budget', `${lavish} tokens`, `${frugal} tokens of 2000, partial: ${bounded.result?.next_steps?.[0]}`]);

  // 5. Urgent is a word like any other.
  const names = ['one', 'two', 'three'];
  await Promise.all([...names, 'urgent'].map((name, at) => sendPlain(old.url, `small task ${name}`, `c5-${at}`)));
  const before = order.splice(0).indexOf('urgent') + 1;
  const sent = names.map((name) => ({
    brief: `small task ${name}`,
    priority: 'low' as const,
    worker: 'haiku-1',
    access: 'read' as const,
  }));
  const queued = await orchestrator.submitBatch([
    ...sent,
    { brief: 'small task urgent', priority: 'urgent', worker: 'haiku-1', access: 'read' },
  ]);
  await Promise.all(queued.map(({ task_id }) => orchestrator.result(task_id, AbortSignal.timeout(PATIENCE_MS))));
  const after = order.splice(0).indexOf('urgent') + 1;
  assert.ok(before === 4 && after <= 2, `urgent was number ${before} before and ${after} after`);
  table.push(['5 priority', `urgent is number ${before} of 4`, `urgent is number ${after} of 4`]);
  spending();

  // The old receiver still works in the same fleet, marked as unverified.
  const plain = await run({ brief: 'small task plain', worker: 'old-claude', reply_schema: 'prose' });
  assert.deepEqual([plain.state, plain.worker, plain.attempts[0]?.mode], ['done', 'old-claude', 'inline']);
  assert.equal(plain.explanation?.verified, false);

  t.diagnostic(table.map(([what, was, is]) => `${what.padEnd(13)} before: ${was.padEnd(30)} after: ${is}`).join('\n'));
});
