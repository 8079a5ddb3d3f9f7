import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PolicyHook } from '../../../src/fleet/route/hooks.ts';
import { compileHooks } from '../../../src/fleet/route/hooks.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { sampleProfile, sampleTask } from './samples.ts';

const task = sampleTask({ task_id: 't-1', priority: 'high', required_mcp: ['context_mode'], brief_bytes: 12 });

const worker = sampleProfile({
  age_s: 3.7,
  model_tier: 'opus',
  active_tasks: 1,
  max_concurrent: null,
  recent_ok: 1,
  recent_total: 2,
  pools: ['web'],
});

/** A hook as the configuration has it. */
const hook = (when: string, effect: PolicyHook['then'], more: Partial<PolicyHook> = {}): PolicyHook =>
  // biome-ignore lint/suspicious/noThenProperty: the word of the configuration
  ({ when, then: effect, ...more });

test('without hooks nothing is rejected, preferred or refused', () => {
  const hooks = compileHooks();
  assert.deepEqual([hooks.reject(task, worker), hooks.prefer(task, worker), hooks.refuse(task)], [[], 0, null]);
});

test('every true reject hook gives its reason, in the order of the configuration', () => {
  const hooks = compileHooks([
    hook('worker.branch == "main" && task.access == "write"', 'reject', { reason: 'nobody writes on main' }),
    hook('worker.model_tier == "haiku"', 'reject', { reason: 'too small' }),
    hook('worker.mcp_health["context_mode"] == "ok" && worker.active_tasks > 0', 'reject'),
  ]);
  assert.deepEqual(hooks.reject(task, worker), ['hook:nobody writes on main', 'hook:hook 3']);
});

test('scores of true prefer hooks are added up, and together move a score by at most 1000', () => {
  const hooks = compileHooks([
    hook('worker.model_tier == "opus"', 'prefer', { score: 50 }),
    hook('"web" in worker.pools', 'prefer', { score: -20 }),
    hook('worker.recent_ok == worker.recent_total', 'prefer', { score: 500 }),
  ]);
  assert.equal(hooks.prefer(task, worker), 30);
  const many = compileHooks([1, 2, 3].map(() => hook('true', 'prefer', { score: 900 })));
  assert.equal(many.prefer(task, worker), 1000);
});

test('a refuse hook turns a task away by what the task is, with its reason', () => {
  const hooks = compileHooks([
    hook('task.token_budget == null && task.priority == "high"', 'refuse', { reason: 'give a budget' }),
  ]);
  assert.equal(hooks.refuse(task), 'give a budget');
  assert.equal(hooks.refuse({ ...task, token_budget: 5000 }), null);
});

test('a hook that cannot be evaluated forbids where it forbids and is not counted where it prefers', () => {
  const unknown = 'task.token_budget > 1000';
  const hooks = compileHooks([hook(unknown, 'reject'), hook(unknown, 'prefer', { score: 9 }), hook(unknown, 'refuse')]);
  assert.deepEqual(hooks.reject(task, worker), ['hook:hook 1 could not be evaluated']);
  assert.equal(hooks.prefer(task, worker), 0);
  assert.equal(hooks.refuse(task), 'hook 3 could not be evaluated');
  const rich = { ...task, token_budget: 5000 };
  assert.deepEqual([hooks.reject(rich, worker), hooks.prefer(rich, worker)], [['hook:hook 1'], 9]);
});

test('a name that is a member of every object is no server', () => {
  const hooks = compileHooks([hook('"constructor" in worker.mcp_health', 'prefer', { score: 1 })]);
  assert.equal(hooks.prefer(task, worker), 0);
});

test('a hook that would take too many steps is cut off and counts as not evaluated', () => {
  const tools = Array.from({ length: 200 }, (_, at) => `tool-${at}`);
  const slow = hook('worker.tools.exists(a, worker.tools.exists(b, a + b == "none"))', 'reject');
  assert.deepEqual(compileHooks([slow]).reject(task, { ...worker, tools }), ['hook:hook 1 could not be evaluated']);
  assert.deepEqual(compileHooks([slow], 1_000_000).reject(task, { ...worker, tools }), []);
  const pattern = hook('worker.agent_id.matches("^(a+)+$")', 'reject');
  assert.deepEqual(compileHooks([pattern]).reject(task, { ...worker, agent_id: `${'a'.repeat(40)}!` }), []);
  assert.deepEqual(compileHooks([pattern]).reject(task, { ...worker, agent_id: 'aaa' }), ['hook:hook 1']);
});

test('a hook that does not parse, does not type-check or does not fit is refused with its index', () => {
  const broken: readonly [PolicyHook, RegExp][] = [
    [hook('task.priority ==', 'reject'), /hook 2, column/],
    [hook('task.nonsense == 1', 'reject'), /nonsense/],
    [hook('task.brief_bytes', 'reject'), /not a bool/],
    [hook('worker.model_tier == "opus"', 'refuse'), /worker/],
    [hook('true', 'prefer'), /needs a score/],
    [hook('true', 'prefer', { score: 1.5 }), /whole number/],
    [hook('true', 'reject', { score: 5 }), /does not use a score/],
    [hook('true', 'reject', { reason: 'x'.repeat(201) }), /reason/],
  ];
  for (const [wrong, message] of broken) {
    assert.throws(
      () => compileHooks([hook('true', 'reject'), wrong]),
      ({ code, message: said, detail }: HandfastError) =>
        code === 'config_invalid' && message.test(said) && detail?.hook === 1,
      wrong.when,
    );
  }
});
