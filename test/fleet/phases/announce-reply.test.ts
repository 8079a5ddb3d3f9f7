import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceInReply } from '../../../src/fleet/phases/announce-reply.ts';

const announce = (agent_id: string, more: object = {}): string =>
  JSON.stringify({
    type: 'SESSION_ANNOUNCE',
    protocol_version: '2.0',
    worker: { agent_id },
    capabilities: { tools: [], mcp_servers: [] },
    ...more,
  });
const fenced = (text: string, fence = '```'): string => `${fence}json\n${text}\n${fence}`;

test('the first valid announce of a reply counts, and all other text stays', () => {
  const reply = `Before\r\n${fenced(announce('one'))}\r\nBetween\n${fenced(announce('two'))}\n`;
  const { profile, prose } = announceInReply(reply);
  assert.equal(profile?.agent_id, 'one');
  assert.equal(prose, `Before\nBetween\n${fenced(announce('two'))}`);
});

test('an announce is found in the open, between other braces', () => {
  const { profile, prose } = announceInReply(`{a} ${announce('one')} {b}`);
  assert.deepEqual([profile?.agent_id, prose], ['one', '{a}  {b}']);
});

test('an invalid announce is none, is reported for the log, and does not hide a valid one', () => {
  const wrong = fenced(announce('has a blank'));
  const only = announceInReply(wrong);
  assert.deepEqual([only.found, only.prose], [false, wrong]);
  assert.deepEqual(only.refused, [{ code: 'E_FORMAT', path: '/worker/agent_id' }]);
  assert.equal(announceInReply(`${wrong}\n${fenced(announce('fine'))}`).profile?.agent_id, 'fine');
});

test('nothing is repaired in an announce: a machine wrote it', () => {
  const comma = fenced(announce('one').replace(/}$/, ',}'));
  const twice = fenced(announce('one').replace('"worker"', '"worker":{"agent_id":"other"},"worker"'));
  assert.equal(announceInReply(comma).found, false);
  assert.deepEqual(announceInReply(twice).refused, [{ code: 'E_DUP_KEY', path: '/worker' }]);
});

test('an announce that is quoted inside another block is no announce', () => {
  for (const quoted of [`\`\`\`\`md\n${fenced(announce('one'))}\n\`\`\`\``, `~~~\nsee: ${announce('one')}\n~~~`])
    assert.equal(announceInReply(quoted).found, false);
});
