/**
 * Recorders that do not finish: killed in the middle of messages, and on a full disk. The result is a recording up to
 * its last whole line, and all readers report the missing part.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'handfast';
import { testHost } from 'handfast/testing';
import { messageOf } from '../../src/recording/format.ts';
import { whatIsMissing } from '../../src/recording/missing.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { ReplayHost } from '../../src/recording/replay-host.ts';
import { Command, User } from '../cli/command.ts';
import { echo, flood, patient } from '../support/tools.ts';

const user = new User();
after(() => user.leave());
const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

/** Starts a recorder before a host, with no file above `limit` bytes; returns it with its address. */
async function recorder(folder: string, host: string, limit?: number): Promise<[Command, string]> {
  const line = user.line(['record', '--out', folder, '--connect', host, '--listen', 'tcp://127.0.0.1:0', '--json']);
  const [program = '', ...words] = limit === undefined ? line : ['prlimit', `--fsize=${limit}`, ...line];
  // The cache of compiled modules would grow beyond the limit too.
  const env = user.environment({ NODE_DISABLE_COMPILE_CACHE: '1' });
  const command = new Command(spawn(program, words, { cwd: user.cwd, env }));
  await command.says('\n');
  return [command, JSON.parse(command.stdout).address];
}

const bytesOf = (folder: string): number => statSync(join(user.cwd, folder, 'messages.ndjson')).size;

test('a recorder that is killed while messages pass leaves every whole line, and replay and diff say what is missing', async () => {
  const slow = patient();
  await using host = await testHost({ tools: [echo, flood, slow.tool] });
  const listener = await host.listen();
  const [command, address] = await recorder('killed', listener.address);
  const agent = await connect(address, { capabilities: ['tools'], token: host.token });
  assert.deepEqual((await agent.tools.call('echo', { text: 'one' })).data, { text: 'one' });
  const calls = [
    agent.tools.call('patient', { name: 'never' }),
    Array.fromAsync(agent.tools.call('flood', { count: 100_000 })),
  ].map((call) => Promise.resolve(call).catch(() => {}));
  for (const give = AbortSignal.timeout(60_000); bytesOf('killed') < 20_000; await pause(5)) give.throwIfAborted();
  command.child.kill('SIGKILL');
  await command.ended();
  await agent.close();
  await Promise.all(calls);

  const recording = readBundle(join(user.cwd, 'killed'));
  const last = recording.entries.at(-1)?.seq;
  const text = readFileSync(join(user.cwd, 'killed', 'messages.ndjson'), 'utf8');
  assert.equal(recording.entries.length, text.split('\n').length - 1, 'every whole line');
  const missing = whatIsMissing(recording) ?? '';
  assert.match(
    missing,
    new RegExp(
      `^the recording is not complete: its last whole line is #${last}; the ends of connections 1 are missing`,
    ),
  );
  assert.match(missing, /; so are the replies to #\d+ tool\/call\/req, #\d+ tool\/call\/req$/);

  // The same in a line that was cut.
  writeFileSync(join(user.cwd, 'killed', 'messages.ndjson'), text.slice(0, -7));
  assert.equal(readBundle(join(user.cwd, 'killed')).entries.length, recording.entries.length - 1);
  const checked = await user.json(['record', 'check', 'killed']);
  assert.deepEqual([checked.complete, /last whole line is #\d+/.test(checked.missing)], [false, true]);
  const diff = await user.run(['diff', 'killed', 'killed']);
  assert.deepEqual([diff.code, diff.stdout], [0, 'no difference that matters\n']);
  assert.equal(diff.stderr.match(/killed: the recording is not complete: its last whole line is/g)?.length, 2);

  // Recorded replies are served, and a request without a recorded reply is refused instead of waiting.
  const replay = new ReplayHost(recording);
  const again = await connect(replay, { capabilities: ['tools'] });
  assert.deepEqual((await again.tools.call('echo', { text: 'one' })).data, { text: 'one' });
  await assert.rejects(again.tools.call('patient', { name: 'never' }), {
    code: 'recording.not_recorded',
    message: /the recording is not complete: it ends before the reply to #\d+ tool\/call\/req/,
  });
  await again.close();

  // The recorded client is played up to its last message.
  const { code, stderr } = await user.run(
    [...['replay', 'killed', '--as', 'client', '--timeout', '2', '--connect', listener.address]],
    { env: { HANDFAST_TOKEN: host.token } },
  );
  assert.equal(code, 0, stderr);
  assert.match(stderr, /the recording is not complete: its last whole line is/);
});

test('on a full disk the recorder drops its connections and fails, and the recording is what was written', {
  skip: noLimit,
}, async () => {
  await using host = await testHost({ tools: [flood] });
  const [command, address] = await recorder('full', (await host.listen()).address, 40_000);
  const agent = await connect(address, { capabilities: ['tools'], token: host.token, resume: false });
  await assert.rejects(Array.fromAsync(agent.tools.call('flood', { count: 100_000 })));
  await agent.close();
  const { code, stderr } = await command.ended();
  assert.notEqual(code, 0);
  assert.match(stderr, /"code":"disk_full"/);
  const recording = readBundle(join(user.cwd, 'full'));
  assert.equal(recording.manifest.complete, false);
  assert.ok(recording.entries.length > 10 && bytesOf('full') <= 40_000);
  assert.equal(messageOf(recording.entries[1]!)?.type, 'handshake/req');
  const { stdout } = await user.run(['record', 'check', 'full']);
  assert.match(
    stdout,
    /^the recording is not complete: its last whole line is #\d+; the ends of connections 1 are missing; so are the replies to #\d+ tool\/call\/req$/m,
  );
});
