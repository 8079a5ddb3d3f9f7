/**
 * The published schema of the fleet messages: it accepts every message that `encode.ts` builds and every valid vector, and the
 * decoder refuses no message built here that the schema accepts.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { decode, decodeValue } from '../../../src/fleet/messages/decode.ts';
import { announceMessage, dispatchMessage, fleetMessage, resultMessage } from '../../../src/fleet/messages/encode.ts';
import { type Envelope, FEATURE_OF, type FleetMessage } from '../../../src/protocol/fleet.ts';
import { NOTE } from '../../../src/protocol/member.ts';
import { vectorNowMs, vectorsOf } from '../vectors.ts';

const published = JSON.parse(
  readFileSync(join(import.meta.dirname, '..', '..', '..', 'schema', 'fleet.json'), 'utf8'),
) as {
  readonly oneOf: readonly { readonly $ref: string }[];
  readonly $defs: Readonly<Record<string, { readonly properties: { readonly type: { readonly const: string } } }>>;
};
const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(published);
const fits = (message: unknown): string => (validate(message) ? 'fits' : JSON.stringify(validate.errors));

const envelope: Required<Omit<Envelope, 'context_id'>> & Envelope = {
  message_id: 'm-1',
  context_id: 'handshake:main',
  correlation_id: 't-0',
  causation_id: 'm-0',
  sent_at: '2026-06-01T12:00:00.000Z',
  sender: 'orchestrator',
  attempt: 2,
  lease: { ttl_s: 45, fence: 17 },
  token: 'secret',
};

/** Every message with every member it can have, and with as few as it can have. */
const examples: readonly FleetMessage[] = [
  announceMessage(
    {
      worker: {
        agent_id: 'codex-1',
        model: 'gpt-large',
        model_tier: 'sonnet',
        context_window: 200_000,
        protocol_versions: ['2.0'],
        features: ['ack', 'progress'],
        max_concurrent: 2,
        overhead_tokens: 11_000,
        pools: ['reviews'],
      },
      capabilities: { tools: ['terminal', 'file'], mcp_servers: ['context_mode'] },
      mcp_health: { context_mode: 'ok' },
      session: {
        context_id: 'c-1',
        active_tasks: 1,
        repo_state: { branch: 'main', clean: true, head: 'abc123' },
        session_fresh: false,
        incarnation: 'i-1',
        seq: 3,
        ttl_s: 900,
        draining: false,
        not_ready: 'auth_required',
      },
    },
    envelope,
  ),
  announceMessage({ worker: { agent_id: 'agy-1' }, capabilities: { tools: [], mcp_servers: [] } }),
  dispatchMessage(
    {
      task: {
        task_id: 't-1',
        priority: 'urgent',
        reply_schema: 'json',
        token_budget: 20_000,
        answer_schema: { type: 'object', properties: { total: { type: 'number' } } },
        retry_safe: true,
        parent_task_id: 't-0',
      },
      requirements: {
        required_mcp: ['context_mode'],
        required_capabilities: ['terminal'],
        min_tier: 'sonnet',
        min_context_window: 100_000,
        access: 'write',
        worktree: true,
      },
      deadline: '2026-06-01T21:00:00Z',
      brief: 'Fix the flaky test.',
    },
    envelope,
  ),
  dispatchMessage({ task: { task_id: 't-1' }, brief: 'Fix the flaky test.' }),
  resultMessage(
    {
      task_id: 't-1',
      status: 'partial',
      tokens_spent: 4_000,
      next_steps: ['Run the tests'],
      summary: 'Half of it.',
      artifacts: { pr: 'https://example.test/pull/1', files_changed: ['src/a.ts'], notes: { more: true } },
      usage: {
        source: 'measured',
        input: 3_000,
        output: 1_000,
        reasoning: 5,
        cache_read: 9_000,
        cache_write: 0,
        cost_usd: 0.02,
        claimed: 10,
      },
      answer: { total: 7 },
      prose: 'I did half of it.',
      conformance: 'strict',
    },
    envelope,
  ),
  resultMessage({
    task_id: 't-1',
    status: 'blocked',
    tokens_spent: 0,
    next_steps: [],
    blocked_reason: 'unhealthy_mcp: context_mode=timeout',
    blocked: { code: 'unhealthy_mcp', retryable: true, missing: ['context_mode'], retry_after_s: 30 },
  }),
  resultMessage({ task_id: 't-1', status: 'error', tokens_spent: 1, error_summary: 'exit code 1' }),
  resultMessage({ task_id: 't-1', status: 'done', tokens_spent: 1 }),
  fleetMessage(
    'TASK_ACK',
    { task_id: 't-1', accepted: true, lease: { ttl_s: 45, fence: 1 }, state: 'accepted', retry_after_s: 30 },
    envelope,
  ),
  fleetMessage('TASK_ACK', { task_id: 't-1', accepted: false }),
  fleetMessage(
    'TASK_PROGRESS',
    { task_id: 't-1', seq: 4, phase: 'running', note: 'testing', percent: 40.5, tokens_so_far: 900 },
    envelope,
  ),
  fleetMessage('TASK_PROGRESS', { task_id: 't-1', seq: 0, phase: 'starting' }),
  fleetMessage('TASK_CANCEL', { task_id: 't-1', reason: 'not wanted any more' }, envelope),
  fleetMessage('TASK_CANCEL', { task_id: 't-1' }),
  fleetMessage('TASK_STEER', { task_id: 't-1', steer_id: 's-1', text: 'Only the unit tests.' }, envelope),
  fleetMessage('TASK_POLL', { task_id: 't-1' }, envelope),
  fleetMessage(
    'TASK_QUESTION',
    {
      task_id: 't-1',
      question_id: 'q-1',
      kind: 'tool',
      title: 'Delete the branch?',
      tool: { name: 'terminal', input: { command: 'git branch -D x' } },
      risks: ['destructive'],
      schema: { type: 'object' },
      expires_s: 600,
    },
    envelope,
  ),
  fleetMessage('TASK_QUESTION', { task_id: 't-1', question_id: 'q-1', kind: 'question', title: 'Which branch?' }),
  fleetMessage(
    'TASK_ANSWER',
    { task_id: 't-1', question_id: 'q-1', allowed: true, content: { branch: 'main' }, reason: 'fine' },
    envelope,
  ),
  fleetMessage('TASK_ANSWER', { task_id: 't-1', question_id: 'q-1', allowed: false }),
  fleetMessage('SESSION_HEARTBEAT', { agent_id: 'codex-1', incarnation: 'i-1', seq: 3, active_tasks: 1 }, envelope),
  fleetMessage('SESSION_BYE', { agent_id: 'codex-1', incarnation: 'i-1', reason: 'idle' }, envelope),
  fleetMessage('SESSION_BYE', { agent_id: 'codex-1', reason: 'stopping' }),
  fleetMessage(
    'SESSION_ACCEPT',
    { peer_id: 'codex-1', features: ['ack', 'poll'], heartbeat_s: 15, lease_ttl_s: 45 },
    envelope,
  ),
  fleetMessage('ANNOUNCE_REQUEST', { context_id: 'c-1' }, envelope),
  fleetMessage('ANNOUNCE_REQUEST', {}),
];

describe('the schema of the fleet messages', () => {
  test('has one definition for each message, without the notes for the reader', () => {
    const types = published.oneOf.map(
      ({ $ref }) => published.$defs[$ref.replace('#/$defs/', '')]?.properties.type.const,
    );
    assert.deepEqual(types.toSorted(), Object.keys(FEATURE_OF).toSorted());
    assert.ok(!JSON.stringify(published).includes(NOTE));
  });

  test('has an example here for each message', () => {
    const shown = new Set(examples.map(({ type }) => type));
    assert.deepEqual([...shown].sort(), Object.keys(FEATURE_OF).sort());
  });

  test('takes every message that is built here, and the decoder takes it without a finding', () => {
    for (const message of examples) {
      const text = JSON.stringify(message);
      assert.equal(fits(message), 'fits', text);
      for (const decoded of [decode(text, { nowMs: vectorNowMs }), decodeValue(message, { nowMs: vectorNowMs })]) {
        assert.deepEqual([decoded.errors, decoded.warnings], [[], []], text);
        assert.equal(decoded.valid && decoded.message.type, message.type);
      }
    }
  });

  test('takes every valid vector', () => {
    for (const { file, expect, vector } of vectorsOf('message')) {
      if (expect.valid === true) assert.equal(fits(vector), 'fits', file);
    }
  });

  test('refuses what lacks a member it needs, as the decoder does', () => {
    for (const message of examples) {
      for (const key of Object.keys(message)) {
        const { [key]: _, ...without } = message as unknown as Record<string, unknown>;
        const decoded = decodeValue(without, { nowMs: vectorNowMs });
        // Rules that depend on the status are not in the schema.
        if (message.type === 'TASK_RESULT' && /^(next_steps|blocked_reason|error_summary)$/.test(key)) continue;
        assert.equal(fits(without) === 'fits', decoded.valid, `${message.type} without ${key}`);
      }
    }
  });
});
