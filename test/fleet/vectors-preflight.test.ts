/**
 * The vectors of kind `preflight`: the refused dispatches and their codes, before a token is spent.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeValue } from '../../src/fleet/messages/decode.ts';
import type { Dispatched, RepoState } from '../../src/fleet/messages/decoded.ts';
import { preflight, refusalResult } from '../../src/fleet/phases/preflight.ts';
import type { Status } from '../../src/protocol/fleet.ts';
import { vectorsOf } from './vectors.ts';

interface PreflightVector {
  readonly input: {
    readonly now: string;
    readonly dispatch: { readonly task?: { readonly task_id?: string } };
    readonly worker: {
      readonly tools: readonly string[];
      readonly mcp_servers: readonly string[];
      readonly mcp_health: Readonly<Record<string, string>>;
      readonly active_tasks: number;
      readonly max_concurrent: number;
      readonly executor_present: boolean;
      readonly executor_authenticated: boolean;
      readonly repo_state: RepoState | null;
      readonly overhead_tokens?: number;
      readonly draining?: boolean;
      readonly context_id?: string;
      readonly dispatch_context_id?: string;
      readonly min_lead_s?: number;
      readonly journal?: Readonly<
        Record<
          string,
          { state: 'running' | 'finished'; digest_matches: boolean; status?: Status; tokens_spent?: number }
        >
      >;
    };
  };
  readonly expect: Readonly<Record<string, unknown>>;
}

test('every preflight vector is answered as it says', () => {
  const vectors = vectorsOf<PreflightVector>('preflight');
  assert.equal(vectors.length, 18);
  for (const { file, vector } of vectors) {
    const { worker, dispatch, now } = vector.input;
    const nowMs = Date.parse(now);
    const decoded = decodeValue(dispatch, { nowMs });
    const entry = worker.journal?.[dispatch.task?.task_id ?? ''];
    const answer = preflight(
      decoded.valid ? (decoded.message as Dispatched) : decoded.errors,
      {
        tools: worker.tools,
        mcpServers: worker.mcp_servers,
        mcpHealth: new Map(Object.entries(worker.mcp_health)),
        activeTasks: worker.active_tasks,
        maxConcurrent: worker.max_concurrent,
        executorPresent: worker.executor_present,
        executorAuthenticated: worker.executor_authenticated,
        repoState: worker.repo_state,
        overheadTokens: worker.overhead_tokens ?? null,
        draining: worker.draining ?? false,
        contextId: worker.context_id ?? null,
        dispatchContextId: worker.dispatch_context_id ?? null,
        minLeadS: worker.min_lead_s,
        journalEntry: entry && {
          state: entry.state,
          digestMatches: entry.digest_matches,
          status: entry.status,
          tokensSpent: entry.tokens_spent,
        },
      },
      nowMs,
    );
    if (answer.accept) {
      assert.deepEqual(answer, vector.expect, file);
      continue;
    }
    const { accept, code, retryable, missing, status, tokensSpent } = answer;
    assert.deepEqual({ accept, code, retryable, missing, status, tokens_spent: tokensSpent }, vector.expect, file);
    const told = decodeValue(refusalResult('abc-123', answer), { nowMs });
    assert.deepEqual([told.valid, told.errors, told.warnings], [true, [], []], file);
  }
});
