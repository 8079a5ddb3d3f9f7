/** Runs the published vectors of announces and results in replies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Announced, Reported } from '../../src/fleet/messages/decoded.ts';
import { announceInReply } from '../../src/fleet/phases/announce-reply.ts';
import { extractReply } from '../../src/fleet/phases/reply.ts';
import type { ReplySchema } from '../../src/protocol/fleet.ts';
import { vectorsOf } from './support/vectors.ts';

/** Returns the normalised view that vectors compare. */
function profileView(announced: Announced): unknown {
  const { type, protocol_version, agent_id, model, model_tier, context_window, tools, mcp_servers } = announced;
  const { mcp_health, context_id, active_tasks, repo_state, session_fresh } = announced;
  const about = { type, protocol_version, agent_id, model, model_tier, context_window, tools, mcp_servers };
  const health = Object.fromEntries(mcp_health);
  return { ...about, mcp_health: health, context_id, active_tasks, repo_state, session_fresh };
}

function resultView({ task_id, status, tokens_spent, next_steps, blocked_reason, ...rest }: Reported): unknown {
  const { artifacts, error_summary } = rest;
  const view = { task_id, status, tokens_spent, next_steps, blocked_reason, artifacts };
  return error_summary === undefined ? view : { ...view, error_summary };
}

for (const { file, input, expect } of vectorsOf<{ text: string }, object>('announce_reply')) {
  test(`${file} is read as it says`, () => {
    const { found, profile, prose } = announceInReply(input.text);
    assert.deepEqual({ found, prose, ...(profile && { profile: profileView(profile) }) }, expect);
  });
}

type Input = { text: string; task_id: string; reply_schema: ReplySchema; exit_code: number };
for (const { file, input, expect } of vectorsOf<Input, { diagnostics: string[] }>('reply')) {
  test(`${file} is read as it says`, () => {
    const { text, task_id: taskId, reply_schema: replySchema, exit_code: exitCode } = input;
    const { source, conformance, result, diagnostics } = extractReply({ text, taskId, replySchema, exitCode });
    const got = { source, conformance, result: result && resultView(result), diagnostics: [...diagnostics].sort() };
    assert.deepEqual(got, { ...expect, diagnostics: expect.diagnostics.sort() });
  });
}
