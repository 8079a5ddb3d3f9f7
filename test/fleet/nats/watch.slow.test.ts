/** Watches of buckets: they report everything although the server forgets them, and none outlives its owner. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { Bucket, type Entry } from '../../../src/fleet/bus/nats/bucket.ts';
import { type NatsLink, openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { ensureFleet } from '../../../src/fleet/bus/nats/streams.ts';
import { within } from '../../contract/recorder.ts';
import { log } from './fleet.ts';
import { type Installed, NatsServer, natsTest } from './server.ts';

const BUCKET = 'a2a_leases';

async function staged(context: TestContext, installed: Installed): Promise<{ server: NatsServer; link: NatsLink }> {
  const server = await NatsServer.start(context, installed);
  const link = await openNats('test', { servers: server.url, log });
  context.after(() => link.close());
  await ensureFleet(link);
  return { server, link };
}

/** The reports of a watch, and the waiters for one of its entries. */
class Reports {
  readonly entries: Entry[] = [];
  #check: () => void = () => {};

  add(entry: Entry): void {
    this.entries.push(entry);
    this.#check();
  }

  async until(found: (entry: Entry) => boolean): Promise<Entry> {
    const { promise, resolve } = Promise.withResolvers<Entry>();
    this.#check = () => {
      const entry = this.entries.find(found);
      if (entry !== undefined) resolve(entry);
    };
    this.#check();
    return within(promise, 'the report of an entry', 30_000);
  }
}

const value = (text: string): Uint8Array => Buffer.from(text);

// They wait more than they work.
describe('watches of buckets on NATS', { concurrency: 4 }, () => {
  natsTest('a watch reports what exists, then what changes, and what is removed', async (context, installed) => {
    const { link } = await staged(context, installed);
    const bucket = new Bucket(link, BUCKET);
    for (const key of ['one', 'two']) await bucket.put(key, value(key));
    const reports = new Reports();
    const stop = await bucket.watch('*', (entry) => reports.add(entry));
    const seen = reports.entries.map(({ key, update, removed }) => [key, update, removed]);
    assert.deepEqual(seen.sort(), [
      ['one', false, false],
      ['two', false, false],
    ]);
    const revision = await bucket.put('one', value('again'));
    const changed = await reports.until(({ update }) => update);
    assert.deepEqual(
      [changed.key, changed.revision, Buffer.from(changed.value).toString()],
      ['one', revision, 'again'],
    );
    bucket.release('one', revision);
    assert.equal((await reports.until(({ removed }) => removed)).key, 'one');
    stop();
    await bucket.put('three', value('three'));
    await link.connection.flush();
    assert.equal(
      reports.entries.some(({ key }) => key === 'three'),
      false,
    );
  });

  natsTest('a watch that the server has forgotten begins again by itself', async (context, installed) => {
    const { link } = await staged(context, installed);
    const bucket = new Bucket(link, BUCKET);
    const reports = new Reports();
    const stop = await bucket.watch('*', (entry) => reports.add(entry));
    context.after(stop);
    const manager = await jetstreamManager(link.connection);
    const forgotten: string[] = [];
    // As when the server that reported was killed: its reports, and its signs of life, just end.
    for await (const { name } of manager.consumers.list(`KV_${BUCKET}`)) {
      forgotten.push(name);
      await manager.consumers.delete(`KV_${BUCKET}`, name);
    }
    assert.equal(forgotten.length, 1);
    await bucket.put('later', value('later'));
    await reports.until(({ key }) => key === 'later');
  });

  for (const [how, name] of [
    ['closes', 'while a watch is being opened'],
    ['outage', 'while its server is down'],
  ] as const) {
    natsTest(`a process that leaves ${name} ends by itself`, async (context, installed) => {
      const { server, link } = await staged(context, installed);
      await link.close();
      const child = fork(join(import.meta.dirname, 'watch-child.ts'), [server.url, how], {
        execArgv: ['-C', 'handfast-source'],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      context.after(() => child.kill('SIGKILL'));
      const ended = once(child, 'exit');
      const [said] = (await within(once(child, 'message'), 'the child to be ready')) as [string];
      assert.equal(said, 'ready');
      if (how === 'outage') await server.kill();
      child.send('leave');
      child.disconnect();
      assert.deepEqual(await within(ended, 'the process to end', 40_000), [0, null]);
    });
  }
});
