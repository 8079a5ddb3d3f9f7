/**
 * The tour of every capability from its stored recording: its agent without a host, and its host without the agent. A
 * change of the messages of either is found here, at its place; `npm run record-tour` records it again.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { connect, listen } from 'handfast';
import { replayedHost } from 'handfast/testing';
import type { Divergence } from '../../src/recording/diff.ts';
import { messageOf } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { assertPrinted, expected } from '../examples/tour.ts';
import { STORED, TourUser } from './tour-recording.ts';

const users: TourUser[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

async function prepared(): Promise<TourUser> {
  const user = await TourUser.prepared();
  users.push(user);
  return user;
}

/** Returns the differences between a host and the stored one. */
async function divergences(user: TourUser): Promise<readonly Divergence[]> {
  const played = ['replay', STORED, '--as', 'client', '--all', '--secrets', user.secrets, '--connect', user.host];
  const { stdout, stderr } = await user.run([...played, '--json']);
  assert.match(stdout, /^\{/, stderr);
  return (JSON.parse(stdout) as { divergences: Divergence[] }).divergences;
}

const hint = 'a change that is meant is recorded by: npm run record-tour';

test('the stored recording is whole, has every capability, and names no path and no token', () => {
  const { manifest, entries } = readBundle(STORED);
  assert.equal(manifest.complete, true);
  const text = readFileSync(STORED, 'utf8');
  assert.doesNotMatch(text, /"\/(?:home|root|tmp|usr|var|Users|work)\b|\bhf_[\w-]{20}/);
  assert.deepEqual(manifest.redacted, [{ rule: 'value:named', count: 5, values: 1 }]);
  assert.ok(entries.length > 200);
});

test('the agent passes the tour without a host', async () => {
  const user = await prepared();
  await using host = replayedHost(STORED);
  await using listener = await listen(host, 'tcp://127.0.0.1:0');
  const printed = await user.tour(listener.address);
  await listener.close();
  assertPrinted(printed, expected());
  await host.assertPlayed();
});

test('the host replies to the recorded agent as it did', async () => {
  assert.deepEqual(await divergences(await prepared()), [], hint);
});

test('a host that was changed is found out at the first place', async () => {
  const user = await prepared();
  const file = join(user.cwd, 'skills/word-count/main.js');
  const skill = readFileSync(file, 'utf8');
  writeFileSync(file, skill.replace('.length }', '.length + 1 }'));
  assert.notEqual(readFileSync(file, 'utf8'), skill);
  const found = await divergences(user);
  const [first] = found;
  assert.deepEqual(
    [first?.type, first?.part, first?.path, first?.left_value, first?.right_value],
    ['skill/call/req', 'reply', '/data/data/words', '39', '40'],
  );
  // The chain counts with the same skill.
  assert.deepEqual([...new Set(found.map(({ type }) => type))], ['skill/call/req', 'chain/req']);
});

test('an agent that was changed is refused, with the nearest recorded message', async () => {
  await using host = replayedHost(STORED);
  await using listener = await listen(host, 'tcp://127.0.0.1:0');
  // The same handshake.
  const { agent_caps } = readBundle(STORED).entries.map(messageOf).find(Boolean) ?? {};
  await using agent = await connect(listener.address, { capabilities: agent_caps as ['tools'] });
  await assert.rejects(agent.tools.call('read_file', { path: 'README.md', limit: 4 }), {
    code: 'recording.not_recorded',
    message: /differs at \/arguments\/limit: recorded 3, received 4/,
  });
});

test('a tour that is recorded now is the stored one', async () => {
  const user = await prepared();
  assertPrinted(await user.recorded('now'), expected());
  const { code, stdout, stderr } = await user.run(['diff', STORED, 'now', '--all']);
  assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: 'no difference that matters\n', stderr: '' }, hint);
});
