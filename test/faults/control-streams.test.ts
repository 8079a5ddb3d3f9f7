/**
 * A turn on a repository, streamed to two clients of a real server while the link of one is cut and found again: both see
 * the same events, none twice, none missing.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { User } from '../cli/command.ts';
import { isEnd, range, readUntil, seqs } from '../control/client/stand.ts';
import { startRelay } from '../support/relay.ts';

test('three parallel tool calls reach two clients alike, although the link of one is cut again and again', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  mkdirSync(join(user.cwd, 'src'));
  user.write('README.md', 'a repository\n');
  for (let n = 0; n < 200; n++) user.write(`src/file-${n}.ts`, `export const n${n} = ${n}; // marked\n`);
  const { ready } = await user.up(['--listen', 'http://127.0.0.1:0', '--listen', 'tcp://127.0.0.1:0'], {
    env: { HANDFAST_KEYRING: 'off' },
  });
  const tcp = ready.listeners.find((address) => address.startsWith('tcp')) as string;
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  // Enough for the largest event, too little for the turn.
  const relay = await startRelay(parseTcpAddress(tcp), () => 90_000);
  t.after(() => relay.close());

  await using steady = await connectControl(ready.url, { token });
  await using shaky = await connectControl(`tcp://127.0.0.1:${relay.port}`, { token });
  const session = await steady.create({ cwd: user.cwd, parallelTools: true });
  const events = [
    steady.events({ sessionId: session.id, afterSeq: 0 }),
    shaky.events({ sessionId: session.id, afterSeq: 0 }),
  ];
  const words = 'read README.md and list src and search for "marked" in parallel then say "all done"';
  const turn = await session.prompt(words);
  const result = turn.result();
  const [one, other] = await Promise.all(events.map((each) => readUntil(each, isEnd(turn.turnId))));
  assert.match((await result).text, /all done/);
  assert.deepEqual(other, one);
  assert.deepEqual(seqs(one ?? []), range(1, one?.length ?? 0));
  assert.ok(relay.cuts > 0, 'the link was cut');

  const started = (one ?? []).flatMap((event) =>
    event.type === 'session.tool.call.started' ? [event.payload.data] : [],
  );
  const done = (one ?? []).flatMap((event) =>
    event.type === 'session.tool.call.completed' ? [event.payload.data] : [],
  );
  assert.deepEqual(new Set(started.map(({ call }) => call.name)), new Set(['read_file', 'list_dir', 'grep']));
  assert.deepEqual(new Set(started.map(({ toolRound }) => toolRound)).size, 1);
  assert.deepEqual(
    new Set(done.map(({ executed }) => executed.callId)),
    new Set(started.map(({ call }) => call.callId)),
  );
});
