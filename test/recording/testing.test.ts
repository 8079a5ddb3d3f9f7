/**
 * Recordings in tests of users, by `handfast/testing` alone: a session is recorded once, then its client is tested
 * without the host and its host without the client. Likewise for an example, which runs from a recording in both
 * directions.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { connect, listen, tool } from 'handfast';
import { compareRecordings, playClient, recordHost, replayedHost, testHost } from 'handfast/testing';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';
import { cleanUp, freshFolder } from './recorded.ts';

const user = new User();
after(async () => {
  cleanUp();
  await user.leave();
});

const greet = (greeting: string) =>
  tool({
    name: 'greet',
    description: 'Greets',
    input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    run: ({ name }: { name: string }) => ({ text: `${greeting}, ${name}` }),
  });

/** The code under test: it greets two people. */
async function client(host: Parameters<typeof connect>[0], token?: string): Promise<unknown[]> {
  await using agent = await connect(host, { capabilities: ['tools'], token });
  const calls = ['Ada', 'Grace'].map((name) => agent.tools.call<{ text: string }>('greet', { name }));
  return (await Promise.all(calls)).map(({ data }) => data?.text);
}

/** Returns a recording of the client with a host that uses this greeting. */
async function record(greeting: string): Promise<string> {
  await using host = await testHost({ tools: [greet(greeting)] });
  const file = freshFolder();
  const recorded = await recordHost(host.host, freshFolder(), { secrets: { admin: host.token } });
  await client(recorded, host.token);
  await recorded.finish(file);
  assert.ok(!JSON.stringify(readBundle(file)).includes(host.token));
  return file;
}

test('a client is tested without its host, in memory and over a listener', async () => {
  const file = await record('Hello');
  const replayed = replayedHost(file);
  assert.deepEqual(await client(replayed), ['Hello, Ada', 'Hello, Grace']);
  await replayed.assertPlayed();
  await using again = replayedHost(file);
  await using listener = await listen(again, 'tcp://127.0.0.1:0');
  assert.deepEqual(await client(listener.address), ['Hello, Ada', 'Hello, Grace']);
  await listener.close();
});

test('a client that does something else, or too little, fails its test', async () => {
  const file = await record('Hello');
  const other = replayedHost(file);
  const agent = await connect(other, { capabilities: ['tools'] });
  await assert.rejects(agent.tools.call('greet', { name: 'Alan' }), { code: 'recording.not_recorded' });
  await agent.close();
  await assert.rejects(other.assertPlayed(), /1 message was not recorded: .*received "Alan"/);
  const idle = replayedHost(file);
  await (await connect(idle, { capabilities: ['tools'] })).close();
  await assert.rejects(idle.assertPlayed(), /2 recorded messages did not come/);
});

test('a host is tested without its client', async () => {
  const file = await record('Hello');
  await using same = await testHost({ tools: [greet('Hello')] });
  assert.deepEqual(await playClient(file, same.host, { token: same.token }), []);
  await using other = await testHost({ tools: [greet('Hi')] });
  const found = await playClient(file, other.host, { token: other.token });
  assert.deepEqual(
    found.map(({ path, right_value: now }) => [path, now]),
    [
      ['/data/data/text', '"Hi, Ada"'],
      ['/data/data/text', '"Hi, Grace"'],
    ],
  );
  assert.equal(compareRecordings(file, await record('Hi')).length, 2);
  assert.deepEqual(compareRecordings(file, await record('Hello')), []);
});

test('an example runs from a recording without its host, and its host without the example', async () => {
  const example = ['-C', 'handfast-source', join(root, 'examples/first-agent.ts')];
  const run = async (host: string): Promise<string> => {
    const env = user.environment({ HOST: host });
    return (await promisify(execFile)(process.execPath, example, { cwd: root, env, timeout: 120_000 })).stdout;
  };
  const folder = freshFolder();
  const words = user.line(['record', '--out', folder, '--', ...user.line(['stdio'])]);
  const live = await run(`stdio:${words.map((word) => JSON.stringify(word)).join(' ')}`);
  assert.match(live, /^matches in \d+ of \d+ files\nMIT License\ntool_denied: /);

  // Without a host: the numbers are those of the recording.
  const replayed = replayedHost(folder);
  await using listener = await listen(replayed, 'tcp://127.0.0.1:0');
  assert.equal(await run(listener.address), live);
  await listener.close();
  await replayed.assertPlayed();

  // Without the example: a host of the same folder replies as the recorded one did.
  const played = await user.run([
    'replay',
    folder,
    '--as',
    'client',
    '--json',
    '--connect',
    `stdio:sh -c "cd '${root}' && exec ${user.line(['stdio']).join(' ')}"`,
  ]);
  assert.equal(played.code, 0, played.stdout + played.stderr);
});
