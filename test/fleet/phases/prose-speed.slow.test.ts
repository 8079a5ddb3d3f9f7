/** Texts made to be slow to read: replies and announces of a megabyte are read in linear time, with any content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceInReply } from '../../../src/fleet/phases/announce-reply.ts';
import { extractReply } from '../../../src/fleet/phases/reply.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

const size = 1024 * 1024;

/** Linear takes tens of milliseconds, quadratic minutes: the bound has room for a slow machine. */
const MAX_MS = 2000;

const worst = [
  ...['{', '`', '- ', '{"', '{\\"', '{"a":', '{}', '/*', '//', '{,', '\r', '{"a":1,"a":2}', '[', '"'],
  ...['```\n', '```{\n', '~~~\n```\n', '````\n```\n', '```\n{\n```\n', ' \u200b', '{"type":"TASK_RESULT"}'],
  '{"result":{"type":"TASK_RESULT","task_id":"t","status":"partial"}}\n',
];

for (const piece of worst) {
  test(`a megabyte of ${JSON.stringify(piece)} is read in linear time`, () => {
    const text = piece.repeat(Math.ceil(size / piece.length));
    for (const reply of [text, `SESSION_ANNOUNCE TASK_RESULT ${text}"}`]) {
      const tookMs = cpuMsOf(() => {
        announceInReply(reply);
        extractReply({ text: reply, taskId: 't', replySchema: 'structured', exitCode: 0 });
      });
      assert.ok(tookMs < MAX_MS, `${tookMs} ms`);
    }
  });
}
