/**
 * A server restarts with an older copy of its data. Clients that have seen newer data get an error within a bound, and
 * none waits without end.
 */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { connect as connectAgent } from '../../src/connect.ts';
import { connect } from '../../src/control-client/connect.ts';
import { User } from '../cli/command.ts';
import { within } from '../contract/recorder.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };

test('a client that has seen more than its server has gets an error', { timeout: 180_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const port = await ownPort();
  const config = user.write('handfast.yaml', 'journal:\n  kind: sqlite\nplugins:\n  - tools\n');
  const place = ['--config', config, '--port', String(port)];
  const first = await user.up(place, { env: ENV });
  const token = readFileSync(first.ready.token_file as string, 'utf8').trim();
  const setUp = await connect(first.ready.url, { token });
  const session = await setUp.create({ cwd: user.cwd });
  const other = await setUp.create({ cwd: user.cwd });
  await (await other.prompt('say "one"')).result();
  await setUp.close();
  first.command.child.kill('SIGTERM');
  await first.command.ended();
  const copy = `${user.home}.copy`;
  cpSync(user.home, copy, { recursive: true });

  const second = await user.up(place, { env: ENV });
  await using control = await connect(second.ready.url, { token });
  const agent = await connectAgent(second.ready.url, { token, capabilities: ['tools'] });
  t.after(() => agent.close());
  await agent.tools.list();
  const turn = await (await control.open(session.id)).prompt('wait 60000 ms');
  const queued = await (await control.open(session.id)).prompt('say "never"');
  const ahead = await control.open(other.id);
  await (await ahead.prompt('say "two"')).result();
  const { seq } = await ahead.state();
  const reading = (async () => {
    for await (const _ of ahead.events({ afterSeq: seq }));
  })();
  const results = [turn, queued].map((each) => each.result());
  for (const each of [...results, reading]) each.catch(() => {});
  await control.rpc.ping();

  second.command.child.kill('SIGKILL');
  await second.command.ended();
  rmSync(user.home, { recursive: true });
  cpSync(copy, user.home, { recursive: true });
  rmSync(copy, { recursive: true });
  const third = await user.up(place, { env: ENV });

  for (const result of results) {
    await assert.rejects(within(result, 'the result of a turn that is not known', 30_000), {
      code: 'session_expired',
      message: /older state/,
    });
  }
  await assert.rejects(within(reading, 'the events behind the end', 30_000), { code: 'session_expired' });
  // A reader that begins there, and a follower of the journal.
  const late = (async () => {
    for await (const _ of (await control.open(other.id)).events({ afterSeq: 1_000_000 }));
  })();
  await assert.rejects(within(late, 'events that never were', 30_000), { code: 'session_expired' });
  // Its session has ended, and the error reports it: the next call opens a new session.
  assert.ok(await within(agent.tools.list(), 'a call of an agent', 30_000));
  await using fresh = await connectAgent(third.ready.url, { token, capabilities: ['tools'] });
  await assert.rejects(
    within(fresh.journal(fresh.sessionId, { after: 1_000_000, follow: true }), 'entries that never were', 30_000),
    { code: 'schema_violation', message: /ends at/ },
  );
});
