/**
 * Phase 4 in a worker: for every row of the table a task that is refused starts no executor and costs no token. The facts
 * are real: a program that is not there, MCP servers that do not answer, a repository with changes in it.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Readiness } from '../../../src/fleet/executors/executor.ts';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import type { McpServerOptions } from '../../../src/fleet/worker/mcp-servers.ts';
import { git, gitRepository } from '../../../src/fleet/worker/repository/git.ts';
import type { WorkerOptions } from '../../../src/fleet/worker/worker-options.ts';
import { repository } from '../support/git-repository.ts';
import { aborted, block, type ScriptedExecutor, scriptedExecutor } from '../support/scripted-executor.ts';
import { type Bench, bench, dispatch, folder, type Given } from '../support/worker-bench.ts';

const READY: Readiness = { present: true, authenticated: true, detail: '' };
/** A server that ends as soon as it is started. */
const DEAD: McpServerOptions = {
  name: 'dead-one',
  stdio: { command: process.execPath, args: ['-e', 'process.exit(3)'] },
};
const OFF: McpServerOptions = { name: 'switched_off', disabled: true, stdio: { command: 'never-started' } };

const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString();

interface Row {
  readonly code: string;
  readonly given?: Given;
  /** Deadline, in seconds from the moment it is handed over. */
  readonly deadlineS?: number;
  readonly options?: Partial<WorkerOptions>;
  readonly readiness?: Readiness;
  readonly retryable?: boolean;
  readonly missing?: readonly string[];
  /** Works in a repository with changes of unknown origin. */
  readonly dirty?: boolean;
  /** Changes of the worker before the dispatch. */
  readonly before?: (made: Bench) => Promise<void>;
}

const rows: readonly Row[] = [
  { code: 'draining', retryable: true, before: ({ worker }) => worker.drain() },
  { code: 'deadline_passed', deadlineS: -1 },
  { code: 'deadline_too_close', deadlineS: 25 },
  { code: 'executor_missing', readiness: { present: false, detail: 'no such program' } },
  { code: 'auth_required', readiness: { ...READY, authenticated: false } },
  { code: 'missing_mcp', given: { required_mcp: ['nobody', 'Never-Heard'] }, missing: ['nobody', 'never_heard'] },
  {
    code: 'unhealthy_mcp',
    given: { required_mcp: ['dead_one', 'switched_off'] },
    options: { mcpServers: [DEAD, OFF] },
    retryable: true,
    missing: ['dead_one', 'switched_off'],
  },
  { code: 'missing_capability', given: { required_capabilities: ['browser', 'terminal'] }, missing: ['browser'] },
  { code: 'missing_capability', given: { access: 'write', worktree: true }, missing: ['worktree'] },
  { code: 'budget_too_small', given: { token_budget: 4000 }, options: { overheadTokens: 15_000 } },
  { code: 'dirty_repo', given: { access: 'write' }, dirty: true, retryable: true },
  { code: 'busy', options: { maxConcurrent: 0 }, retryable: true },
  { code: 'invalid_dispatch', given: { answer_schema: { type: 'no such type' } } },
];

async function made(test: TestContext, row: Row): Promise<{ made: Bench; executor: ScriptedExecutor }> {
  const { options, readiness = READY, dirty = false } = row;
  const executor = scriptedExecutor(undefined, { readiness: () => readiness });
  const cwd = await folder(test);
  const home = await folder(test);
  if (dirty) {
    await repository(cwd);
    await writeFile(join(cwd, 'b.txt'), 'not committed');
  }
  return { made: await bench(test, { executor, cwd, home, ...options }), executor };
}

for (const row of rows) {
  const detail = row.missing === undefined ? '' : ` (${row.missing.join(', ')})`;
  test(`a task refused as ${row.code}${detail} starts no executor and costs nothing`, async (t) => {
    const { made: it, executor } = await made(t, row);
    await row.before?.(it);
    const deadline = row.deadlineS === undefined ? {} : { deadline: inSeconds(row.deadlineS) };
    const reception = await it.give(dispatch('t-1', { ...row.given, ...deadline }));
    assert.equal(reception.kind, 'refused');
    if (reception.kind !== 'refused') return;
    const { status, tokens_spent, blocked, blocked_reason } = reception.result;
    assert.deepEqual([status, tokens_spent, blocked?.code], ['blocked', 0, row.code]);
    assert.equal(blocked?.retryable, row.retryable ?? false);
    assert.deepEqual(blocked?.missing, row.missing);
    assert.ok(blocked_reason?.startsWith(`${row.code}: `));
    assert.ok(decodeValue(reception.result).valid);
    assert.equal(executor.turns.length, 0, 'no turn was started');
    assert.equal(it.worker.activeTasks, 0);
    assert.equal(it.desk.results.length, 0);
    const poll = await it.worker.handle({ type: 'TASK_POLL', protocol_version: '2.0', task_id: 't-1' }, it.desk);
    assert.equal((poll as { state?: string }).state, 'unknown', 'nothing is kept of it');
  });
}

test('a dispatch that cannot be read starts no executor and is answered where it names its task', async (t) => {
  const executor = scriptedExecutor();
  const { worker } = await bench(t, { executor });
  const cases = [
    ['unsupported_version', { protocol_version: '3.0' }],
    ['unsupported_reply_schema', { task: { task_id: 't-1', reply_schema: 'xml' } }],
    ['empty_brief', { brief: '  ' }],
    ['brief_too_large', { brief: 'x'.repeat(262_145) }],
    ['invalid_dispatch', { task: { task_id: 't-1', token_budget: 'much' } }],
  ] as const;
  for (const [code, members] of cases) {
    const message = {
      type: 'TASK_DISPATCH',
      protocol_version: '2.0',
      task: { task_id: 't-1' },
      brief: 'Do it.',
      ...members,
    };
    const decoded = decodeValue(message);
    assert.ok(!decoded.valid);
    const result = worker.refuse(decoded.taskId ?? 't-1', decoded.errors);
    assert.deepEqual([result?.status, result?.tokens_spent, result?.blocked?.code], ['blocked', 0, code]);
    assert.equal(worker.refuse(undefined, decoded.errors), undefined);
  }
  assert.equal(executor.turns.length, 0);
});

test('a replay, a conflict, a task in flight and a busy context start no second executor', async (t) => {
  const executor = scriptedExecutor(async ({ taskId }, { signal }) => {
    if (taskId === 't-2') await aborted(signal);
    return { text: block(taskId), usage: { source: 'measured', input: 5, output: 5 } };
  });
  const { give, worker, desk, ...rest } = await bench(t, { executor });
  await rest.do(dispatch('t-1'));
  await rest.idle();
  const replay = await give(dispatch('t-1'));
  assert.equal(replay.kind === 'replay' && replay.result.tokens_spent, 10, 'the figure of the stored result');
  const conflict = await give(dispatch('t-1', { brief: 'Other.' }));
  assert.equal(conflict.kind === 'refused' && conflict.result.tokens_spent, 0);
  await give(dispatch('t-2', { envelope: { context_id: 'c' } }));
  await desk.message('TASK_PROGRESS', ({ task_id, phase }) => task_id === 't-2' && phase === 'running');
  assert.equal((await give(dispatch('t-2', { envelope: { context_id: 'c' } }))).kind, 'taken');
  const later = await give(dispatch('t-2', { envelope: { context_id: 'c', attempt: 2 } }));
  assert.deepEqual([later.kind, later.kind === 'busy' && later.reason], ['busy', 'in_flight']);
  assert.equal((await give(dispatch('t-3', { envelope: { context_id: 'c' } }))).kind, 'busy');
  assert.equal(executor.turns.length, 2);
  await worker.close();
});

test('a git that takes too long is asked again, one that fails is not', async (t) => {
  const cwd = await folder(t);
  const slow = () => git(cwd, ['-c', 'alias.wait=!sleep 10', 'wait'], 50);
  // Its words are those of a slow git.
  const failing = () => git(cwd, ['-c', 'alias.fail=!echo fatal: no answer within 9 ms >&2; exit 1; :', 'fail']);
  const rows = [
    [slow, 'busy', true],
    [failing, 'missing_capability', false],
  ] as const;
  for (const [run, code, retryable] of rows) {
    const repository = { ...gitRepository, treeState: () => run().then(() => null) };
    const { give } = await bench(t, { cwd, home: await folder(t) }, { repository });
    for (const [id, needs] of Object.entries({ tree: { worktree: true }, folder: {} })) {
      const reception = await give(dispatch(id, { access: 'write', ...needs }));
      const blocked = reception.kind === 'refused' ? reception.result.blocked : undefined;
      assert.deepEqual([blocked?.code, blocked?.retryable], [code, retryable], id);
    }
    assert.equal((await give(dispatch('reads'))).kind, 'accepted');
  }
});

test('permanent reasons are reported before passing ones', async (t) => {
  const { give } = await bench(t, { maxConcurrent: 0 });
  const reception = await give(dispatch('t-1', { required_mcp: ['nobody'], deadline: inSeconds(-1) }));
  assert.equal(reception.kind === 'refused' && reception.result.blocked?.code, 'deadline_passed');
});

test('the changes of a conversation are no dirt to its own next task', async (t) => {
  const cwd = await folder(t);
  await repository(cwd);
  const executor = scriptedExecutor(async ({ taskId }, context) => {
    await writeFile(join(context.cwd, `${taskId}.txt`), taskId);
    return block(taskId);
  });
  const first = await bench(t, { executor, cwd, home: await folder(t) });
  const own = { access: 'write', envelope: { context_id: 'c-1' } } as const;
  const result = await first.do(dispatch('t-1', own));
  assert.deepEqual(result.artifacts?.files_changed, ['t-1.txt']);
  await first.idle();
  const other = await first.do(dispatch('t-2', { access: 'write', envelope: { context_id: 'c-2' } }));
  assert.equal(other.blocked?.code, 'dirty_repo');
  assert.equal((await first.do(dispatch('t-3', own))).status, 'done');
  await first.worker.close();
  const again = await bench(t, { executor, cwd, home: first.home });
  assert.equal((await again.do(dispatch('t-4', own))).status, 'done', 'also after a restart');
});

test('a decision waits for no server that its task does not need', async (t) => {
  let [asked, silent] = [0, false];
  const server = createServer((_request, response) => {
    asked += 1;
    if (!silent) response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  let monotonicMs = 0;
  const options = { mcpServers: [{ name: 'slow', http: { url } }], monotonic: () => monotonicMs };
  const { give } = await bench(t, options, { checkMs: 3_600_000 });
  silent = true;
  // The earlier findings are too old for a decision that rests on them.
  monotonicMs += 60_000;
  const before = asked;
  assert.equal((await give(dispatch('t-1'))).kind, 'accepted');
  assert.equal(asked, before);
});
