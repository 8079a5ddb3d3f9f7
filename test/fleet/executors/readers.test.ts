/** Reading the output of a program never throws: a line is read where no caller could catch it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AcpTurn } from '../../../src/fleet/executors/acp/acp-turn.ts';
import { claudeCli } from '../../../src/fleet/executors/programs/claude.ts';
import type { Cli } from '../../../src/fleet/executors/programs/cli.ts';
import { codexCli } from '../../../src/fleet/executors/programs/codex.ts';
import { commandCli } from '../../../src/fleet/executors/programs/command.ts';
import { opencodeCli } from '../../../src/fleet/executors/programs/opencode.ts';
import fc from '../../support/properties.ts';
import { fakeContext, taskOf } from './fake-context.ts';

const words = fc.constantFrom(
  ...[
    'system',
    'init',
    'assistant',
    'user',
    'result',
    'thread.started',
    'turn.started',
    'turn.completed',
    'turn.failed',
  ],
  ...[
    'item.started',
    'item.completed',
    'agent_message',
    'command_execution',
    'mcp_tool_call',
    'file_change',
    'web_search',
  ],
  ...['error', 'text', 'tool_use', 'step_finish', 'progress', 'usage', 'session', 'toString', '__proto__'],
  ...['agent_message_chunk', 'tool_call', 'tool_call_update', 'plan', 'usage_update'],
);
const keys = fc.constantFrom(
  ...[
    'type',
    'subtype',
    'message',
    'content',
    'usage',
    'modelUsage',
    'result',
    'is_error',
    'errors',
    'mcp_servers',
    'name',
  ],
  ...[
    'status',
    'session_id',
    'cwd',
    'thread_id',
    'item',
    'text',
    'command',
    'server',
    'tool',
    'changes',
    'path',
    'query',
  ],
  ...[
    'part',
    'state',
    'title',
    'tokens',
    'cache',
    'cost',
    'error',
    'data',
    'id',
    'sessionID',
    'input',
    'toString',
    'percent',
  ],
  ...['sessionUpdate', 'entries', 'toolCallId', 'kind', 'rawInput', 'locations'],
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    words,
    fc.constantFrom(null, true, 0, -1, 1.5, 1e300, ''),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(keys, tie('value'), { maxKeys: 5 }),
  ),
}));
const frame = fc
  .tuple(fc.dictionary(keys, value, { maxKeys: 6 }), words)
  .map(([fields, type]) => ({ ...fields, type }));

const END = { code: 1, killedBy: null, stdout: '', truncated: false, stderr: '', timedOut: false };

const adapters: readonly Cli[] = [
  claudeCli({ kind: 'claude' }),
  codexCli({ kind: 'codex' }),
  opencodeCli({ kind: 'opencode' }),
  commandCli({ kind: 'command', command: 'x', output: 'json_lines' }),
];

for (const cli of adapters) {
  test(`any frames are read as the output of ${cli.kind}`, async () => {
    const run = fc.asyncProperty(fc.array(frame, { maxLength: 6 }), fc.boolean(), async (frames, resumed) => {
      const conversation = resumed ? { session: 's' } : undefined;
      const turn = { task: taskOf('x'), prompt: 'x', cwd: '/', conversation, extra: [], usesFolder: true };
      const reader = await cli.read(turn, fakeContext('/').events);
      for (const one of frames) reader.line(JSON.stringify(one));
      reader.line('{"type":');
      reader.retry?.(END);
      const reply = await reader.finish(END, false);
      assert.equal(typeof reply.text, 'string');
      for (const count of [reply.usage.input ?? 0, reply.usage.output ?? 0])
        assert.ok(Number.isFinite(count) && count >= 0);
    });
    await fc.assert(run, { numRuns: 300 });
  });
}

test('any updates are read as those of an agent', () => {
  const update = fc
    .tuple(fc.dictionary(keys, value, { maxKeys: 6 }), words)
    .map(([fields, sessionUpdate]) => ({ ...fields, sessionUpdate }));
  fc.assert(
    fc.property(fc.array(update, { maxLength: 8 }), (updates) => {
      const turn = new AcpTurn(taskOf('x'), fakeContext('/'), 'ask');
      for (const one of updates) turn.update(one);
      turn.prompted({ stopReason: 'end_turn', ...(updates[0] as object) } as never);
      assert.equal(typeof turn.reply.text, 'string');
    }),
    { numRuns: 500 },
  );
});
