/**
 * Phase 4: the order of the checks, and the text of each one.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import type { Dispatched, Finding } from '../../../src/fleet/messages/decoded.ts';
import { dispatchMessage } from '../../../src/fleet/messages/encode.ts';
import { type PreflightFacts, preflight, type Refusal, refusalResult } from '../../../src/fleet/phases/preflight.ts';
import fc from '../../support/properties.ts';

const now = Date.parse('2026-06-01T12:00:00Z');

const able: PreflightFacts = {
  tools: ['terminal', 'File'],
  mcpServers: ['context-mode', 'trek'],
  mcpHealth: new Map([
    ['context_mode', 'ok'],
    ['trek', 'timeout'],
  ]),
  activeTasks: 0,
  executorPresent: true,
  repoState: { branch: 'main', clean: true },
  overheadTokens: 10_000,
  draining: false,
  contextId: 'c-1',
  dispatchContextId: 'c-2',
};

type Parts = Parameters<typeof dispatchMessage>[0];
function asked(parts: Partial<Parts> = {}): Dispatched {
  const decoded = decodeValue(dispatchMessage({ task: { task_id: 't' }, brief: 'Fix it.', ...parts }), { nowMs: now });
  assert.ok(decoded.valid && decoded.message.type === 'TASK_DISPATCH');
  return decoded.message;
}

/** `accept`, or the line a refusal would be reported with. */
function said(dispatch: Dispatched | readonly Finding[], facts: Partial<PreflightFacts> = {}): string {
  const answer = preflight(dispatch, { ...able, ...facts }, now);
  return answer.accept ? 'accept' : `${answer.code}: ${answer.detail}`;
}

describe('a dispatch that could not be read', () => {
  test('is refused by what stands first in the table, with anything else wrong', () => {
    const errors = (...list: readonly (readonly [string, string])[]) => list.map(([code, path]) => ({ code, path }));
    const rows = [
      ['invalid_dispatch', errors(['E_FORMAT', '/deadline'])],
      ['brief_too_large', errors(['E_FORMAT', '/deadline'], ['E_LIMIT', '/brief'])],
      ['empty_brief', errors(['E_FORMAT', '/deadline'], ['E_REQUIRED', '/brief'])],
      ['unsupported_reply_schema', errors(['E_REQUIRED', '/brief'], ['E_ENUM', '/task/reply_schema'])],
      ['unsupported_version', errors(['E_VERSION_UNSUPPORTED', '/protocol_version'])],
      ['invalid_dispatch', errors(['E_VERSION', '/protocol_version'])],
      ['invalid_dispatch', errors(['E_LIMIT', ''])],
      ['invalid_dispatch', errors(['E_ENUM', '/requirements/access'])],
    ] as const;
    for (const [code, list] of rows) assert.ok(said(list).startsWith(`${code}: `), `${said(list)} for ${code}`);
  });

  test('receives the first five errors, none of them at length', () => {
    const path = `/${'x'.repeat(500)}`;
    assert.equal(said([{ code: 'E_DUP_KEY', path }]), `invalid_dispatch: E_DUP_KEY at ${path.slice(0, 80)}…`);
    const many = Array.from({ length: 7 }, (_, index) => ({ code: 'E_FORMAT', path: `/${index}` }));
    assert.equal(
      said(many),
      'invalid_dispatch: E_FORMAT at /0, E_FORMAT at /1, E_FORMAT at /2, E_FORMAT at /3, E_FORMAT at /4 and 2 more',
    );
  });
});

describe('a dispatch', () => {
  test('is compared by canonical names, in any spelling of dispatch, health and capabilities', () => {
    const raw = (members: Partial<Dispatched>): Dispatched => ({ ...asked(), ...members });
    assert.equal(said(raw({ required_mcp: ['Context-Mode'], required_capabilities: ['FILE', 'Terminal'] })), 'accept');
    assert.equal(said(raw({ required_mcp: ['TREK', 'trek'] })), 'unhealthy_mcp: trek=timeout');
    const spelt = { mcpServers: ['Context Mode'], mcpHealth: new Map([['Context-Mode', 'ok']]) };
    assert.equal(said(raw({ required_mcp: ['context_mode'] }), spelt), 'accept');
    // Of two entries of one server, the one that is not healthy counts.
    const both = [
      ['context-mode', 'ok'],
      ['context_mode', 'error'],
    ] as const;
    for (const order of [both, both.toReversed()]) {
      const facts = { mcpHealth: new Map(order) };
      assert.equal(said(raw({ required_mcp: ['context_mode'] }), facts), 'unhealthy_mcp: context_mode=error');
    }
    assert.equal(said(raw({ required_capabilities: ['Web-Search'] })), 'missing_capability: web_search');
  });

  test('that can be done is accepted', () => {
    assert.equal(said(asked()), 'accept');
    const requirements = { required_mcp: ['Context_Mode'], required_capabilities: ['FILE'] };
    assert.equal(said(asked({ requirements, task: { task_id: 't', token_budget: 10_000 } })), 'accept');
  });

  test('is refused in plain words', () => {
    assert.equal(said(asked(), { draining: true }), 'draining: the worker is shutting down');
    assert.equal(said(asked(), { activeTasks: 3 }), 'busy: 3 of 3 tasks');
    assert.equal(said(asked(), { activeTasks: 1, maxConcurrent: 1 }), 'busy: 1 of 1 task');
    assert.equal(said(asked(), { executorPresent: false }), 'executor_missing: its program was not found');
    assert.equal(said(asked(), { executorAuthenticated: false }), 'auth_required: its agent is not signed in');
    assert.equal(said(asked(), { executorAuthenticated: true }), 'accept');
    assert.equal(
      said(asked({ task: { task_id: 't', token_budget: 9_999 } })),
      'budget_too_small: the budget is 9999 tokens, and an empty turn costs 10000',
    );
    assert.equal(said(asked({ task: { task_id: 't', token_budget: 1 } }), { overheadTokens: null }), 'accept');
  });

  test('receives all that is missing, in canonical form', () => {
    const requirements = {
      required_mcp: ['Figma', 'context-mode', 'toString'],
      required_capabilities: ['gpu', 'patch'],
    };
    const answer = preflight(asked({ requirements }), able, now) as Refusal;
    assert.deepEqual([answer.code, answer.missing, answer.retryable], ['missing_mcp', ['figma', 'tostring'], false]);
    const ill = preflight(asked({ requirements: { required_mcp: ['trek', 'context-mode'] } }), able, now) as Refusal;
    assert.deepEqual(
      [ill.code, ill.detail, ill.missing, ill.retryable],
      ['unhealthy_mcp', 'trek=timeout', ['trek'], true],
    );
    const lacking = preflight(
      asked({ requirements: { required_capabilities: ['gpu', 'patch'] } }),
      able,
      now,
    ) as Refusal;
    assert.deepEqual([lacking.code, lacking.missing], ['missing_capability', ['gpu', 'patch']]);
  });

  test('has its deadline read by the clock of its author', () => {
    const deadline = (seconds: number) => asked({ deadline: new Date(now + seconds * 1000).toISOString() });
    assert.equal(said(deadline(30)), 'accept');
    assert.equal(said(deadline(29.9)), 'deadline_too_close: 29 s left, min_lead_s is 30');
    assert.equal(said(deadline(5), { minLeadS: 5 }), 'accept');
    assert.equal(said(deadline(0)), 'deadline_passed: the deadline was 2026-06-01T12:00:00.000Z');
    // Their clock is an hour ahead: a deadline that reads as half an hour from now was half an hour ago.
    assert.match(said(deadline(1800), { skewMs: 3_600_000 }), /^deadline_passed/);
    assert.equal(said(deadline(-1800), { skewMs: -3_600_000 }), 'accept');
  });

  test('that writes is refused on dirt, unless the dirt is its own or it works elsewhere', () => {
    const repoState = { branch: 'main', clean: false };
    assert.equal(said(asked(), { repoState }), 'dirty_repo: uncommitted changes on main');
    assert.equal(said(asked(), { repoState, uncommitted: 'a, b' }), 'dirty_repo: uncommitted changes on main: a, b');
    assert.equal(
      said(asked(), { repoState: { branch: null, clean: false } }),
      'dirty_repo: uncommitted changes on a detached head',
    );
    assert.equal(said(asked({ requirements: { access: 'read' } }), { repoState }), 'accept');
    assert.equal(said(asked(), { repoState, dispatchContextId: 'c-1' }), 'accept');
    assert.match(said(asked(), { repoState, contextId: null, dispatchContextId: null }), /^dirty_repo/);
    assert.equal(said(asked(), { repoState, ownWorktree: true }), 'accept');
    assert.equal(said(asked(), { repoState: null }), 'accept');
  });

  test('that was seen before is answered from the journal, before anything is looked at', () => {
    const bad = { draining: true, executorPresent: false, activeTasks: 99 };
    const finished = { state: 'finished', digestMatches: true, status: 'partial', tokensSpent: 7 } as const;
    const replay = preflight(asked(), { ...able, ...bad, journalEntry: finished }, now) as Refusal;
    assert.deepEqual(
      [replay.code, replay.status, replay.tokensSpent, replay.retryable],
      ['replay', 'partial', 7, false],
    );
    const running = { state: 'running', digestMatches: true } as const;
    const busy = preflight(asked(), { ...able, ...bad, journalEntry: running }, now) as Refusal;
    assert.deepEqual([busy.code, busy.status, busy.retryable], ['in_flight', null, true]);
    for (const state of ['running', 'finished'] as const) {
      const journalEntry = { state, digestMatches: false };
      assert.match(said(asked(), { journalEntry }), /^duplicate_conflict: /);
    }
  });

  test('that fails several checks is answered by the one that stands first', () => {
    // In the order of the table; each makes its own check fail, with any outcome of the others.
    const failing: readonly (readonly [code: string, facts: Partial<PreflightFacts>])[] = [
      ['duplicate_conflict', { journalEntry: { state: 'running', digestMatches: false } }],
      ['draining', { draining: true }],
      ['deadline_too_close', { minLeadS: 3600 }],
      ['executor_missing', { executorPresent: false }],
      ['auth_required', { executorAuthenticated: false }],
      ['missing_mcp', { mcpServers: [] }],
      ['unhealthy_mcp', { mcpHealth: new Map() }],
      ['missing_capability', { tools: [] }],
      ['budget_too_small', { overheadTokens: 50_000 }],
      ['dirty_repo', { repoState: { branch: 'main', clean: false } }],
      ['busy', { activeTasks: 3 }],
    ];
    const dispatch = asked({
      task: { task_id: 't', token_budget: 20_000 },
      requirements: { required_mcp: ['context_mode'], required_capabilities: ['terminal'] },
      deadline: '2026-06-01T12:10:00Z',
    });
    fc.assert(
      fc.property(fc.subarray(failing.map((_, index) => index)), (chosen) => {
        const facts = Object.assign({ ...able }, ...chosen.map((index) => failing[index]?.[1]));
        const answer = preflight(dispatch, facts, now);
        assert.equal(answer.accept ? undefined : answer.code, failing[chosen[0] ?? -1]?.[0]);
        if (!answer.accept) assert.deepEqual([answer.status, answer.tokensSpent], ['blocked', 0]);
      }),
      { numRuns: 300 },
    );
  });
});

test('a refusal is reported as blocked, with no token spent, for people and for machines', () => {
  const refusal = preflight(asked({ requirements: { required_mcp: ['trek'] } }), able, now) as Refusal;
  assert.deepEqual(refusalResult('t', refusal, 30), {
    type: 'TASK_RESULT',
    protocol_version: '2.0',
    task_id: 't',
    status: 'blocked',
    tokens_spent: 0,
    next_steps: [],
    blocked_reason: 'unhealthy_mcp: trek=timeout',
    blocked: { code: 'unhealthy_mcp', retryable: true, missing: ['trek'], retry_after_s: 30 },
  });
});
