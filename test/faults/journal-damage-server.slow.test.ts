/**
 * F-102 over a whole server: its log of sessions is damaged or deleted after a kill. The server starts again, reports
 * the loss, and gives no event a number that a client has seen.
 */
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { User } from '../cli/command.ts';
import { within } from '../contract/recorder.ts';
import { isEnd, readUntil } from '../control/client/stand.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };

const damages: Record<string, (log: string) => void> = {
  'one bit of its log flipped': (log) => {
    const bytes = readFileSync(log);
    const middle = Math.floor(bytes.length / 2);
    bytes[middle] = (bytes[middle] as number) ^ 1;
    writeFileSync(log, bytes);
  },
  'its log deleted': (log) => rmSync(log),
};

for (const [damage, doIt] of Object.entries(damages)) {
  test(`F-102: a server with ${damage} says so and never uses a number again`, async (t) => {
    const user = new User();
    t.after(() => user.leave());
    const place = ['--port', String(await ownPort())];
    const before = await user.up(place, { env: ENV });
    const token = readFileSync(before.ready.token_file as string, 'utf8').trim();
    await using control = await connectControl(before.ready.url, { token });
    const session = await control.create({ cwd: user.cwd });
    await (await session.prompt('say "one"')).result();
    // Closed in order: the session is in the file, and later entries are in the log.
    before.command.child.kill('SIGTERM');
    await before.command.ended();
    const { command } = await user.up(place, { env: ENV });
    let seen = 0;
    for await (const event of await session.prompt('say "two"')) {
      if (event.type !== 'gap') seen = Math.max(seen, event.seq);
    }
    const serverSeen = await control.rpc.eventsSubscribe({});
    assert.ok(seen > 1 && serverSeen.last_seq > 0);

    command.child.kill('SIGKILL');
    await command.ended();
    doIt(join(user.home, 'sessions.journal.db-wal'));
    const again = await user.up(place, { env: ENV });
    await again.command.says('journal_damaged', 'stderr');
    assert.match(again.command.stderr, /the newest entries of the journal are lost/);

    await using later = await connectControl(again.ready.url, { token });
    const after = await later.rpc.eventsSubscribe({});
    assert.ok(after.last_seq > serverSeen.last_seq, 'the events of the server continue behind those that were sent');
    const turn = await (await later.open(session.id)).prompt('say "three"');
    const items = await within(
      readUntil(later.events({ sessionId: session.id, afterSeq: seen }), isEnd(turn.turnId)),
      'the next turn',
      60_000,
    );
    assert.ok(
      items.some((item) => item.type === 'gap'),
      'a client that comes back receives what is missing',
    );
    for (const item of items) if (item.type !== 'gap') assert.ok(item.seq > seen);
  });
}
