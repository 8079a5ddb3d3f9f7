/**
 * `journal.durable: replies` on a full disk: a reply that cannot be stored is not sent. Its call ends with `disk_full`,
 * which shows whether repeating it is safe; acknowledged data exists after a kill; and the host continues once the disk
 * has space.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { type Agent, connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import { SqliteStore } from '../../src/journal/sqlite/store.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import type { Command } from '../cli/command.ts';
import { FailingDatabase, SQLITE_FULL } from '../journal/fixtures/failing-database.ts';
import { ROOMY } from '../journal/fixtures/recognisable.ts';
import { doorOf } from '../support/sites.ts';
import { storedHost } from './support/stored-host.ts';

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

/** Returns the facts of a failed call by which its caller decides. */
const failureOf = (call: Promise<unknown>) =>
  call.then(
    () => assert.fail('the call had a reply'),
    ({ code, retryable, detail, message }: HandfastError) => {
      assert.match(message, /could not be stored.*free space/);
      return { code, retryable, mayHaveRun: detail.may_have_run };
    },
  );

const mayHaveRun = { code: 'disk_full', retryable: false, mayHaveRun: true };
const isSafe = { code: 'disk_full', retryable: true, mayHaveRun: undefined };

for (const transport of ['memory', 'tcp', 'http', 'websocket'] as const) {
  test(`over ${transport} a call whose reply has no room on disk says so, and later ones have their replies`, async (t) => {
    const db = new FailingDatabase();
    const journal = new SqliteStore(db, ROOMY, () => {});
    const runs: number[] = [];
    const input = { type: 'object', properties: { n: { type: 'integer' } } } as const;
    const run = ({ n }: { n: number }) => {
      runs.push(n);
      return { n };
    };
    const tools = [
      tool({ name: 'charge', description: 'Acts.', input, run }),
      tool({ name: 'look', description: 'Only looks.', input, idempotent: true, run }),
    ];
    const host = createHost({ plugins: [toolsPlugin({ tools })], journal, durableReplies: true });
    await host.start();
    const door = transport === 'memory' ? undefined : await doorOf(transport, host);
    const agent: Agent<'tools'> = await connect(door?.address ?? host, { capabilities: ['tools'] });
    t.after(async () => {
      await agent.close();
      await host.close(0);
      await door?.close();
      await journal.close();
    });
    const call = async (name: string, n: number) => (await agent.tools.call<{ n: number }>(name, { n })).data?.n;
    assert.equal(await call('charge', 1), 1);

    db.break(SQLITE_FULL);
    assert.deepEqual(
      await Promise.all([failureOf(call('charge', 2)), failureOf(call('look', 3))]),
      [mayHaveRun, isSafe],
      'the first ones ran; the idempotent one may be repeated',
    );
    assert.deepEqual(runs, [1, 2, 3], 'each ran once');
    // From now on the disk is known to be full.
    assert.deepEqual(await failureOf(call('charge', 4)), isSafe);
    assert.deepEqual(
      await Promise.all([failureOf(call('charge', 5)), failureOf(call('look', 6)), failureOf(call('charge', 6))]),
      [isSafe, isSafe, isSafe],
    );
    assert.deepEqual(runs, [1, 2, 3], 'nothing runs whose reply could not be stored');

    db.break(0);
    // The disk is tried once a turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await Promise.all([7, 8, 9].map((n) => call('charge', n))), [7, 8, 9]);
    const { entries } = await journal.read(agent.sessionId, 0, 1000);
    const replies = entries.filter(({ kind }) => kind === 'reply').map(({ request }) => request);
    const requests = entries.filter(({ kind }) => kind === 'request').map(({ request }) => request);
    assert.equal(
      requests.length,
      6,
      'requests wait in memory until there is room; those that were refused are left out',
    );
    assert.deepEqual(
      replies.map((request) => requests.indexOf(request) + 1),
      [1, 4, 5, 6],
    );
  });
}

describe('a host whose files may not grow', { skip: noLimit }, () => {
  /** Limits the files of a process to `bytes` from now on; bytes already written stay. */
  function limitFiles({ child }: Command, bytes: number | 'unlimited'): void {
    const { status, stderr } = spawnSync('prlimit', ['--pid', String(child.pid), `--fsize=${bytes}:`]);
    assert.equal(status, 0, String(stderr));
  }

  for (const transport of ['tcp', 'http'] as const) {
    for (const recovers of [true, false]) {
      const when = recovers ? 'after there was room again' : 'while the disk is full';
      test(`over ${transport}, killed ${when}: no reply that left it is lost`, async (t) => {
        const here = await storedHost(t);
        here.configure(60_000, ', durable: replies');
        const host = await here.up();
        const ran: unknown[] = [];
        const agent = await here.agent(here.addresses()[transport] as string);
        t.after(() => agent.close());
        const acknowledged: number[] = [];
        const charge = async (n: number): Promise<void> => {
          await agent.tools.call('charge', { n }, { onEvent: ({ data }) => void ran.push(data.n) });
          acknowledged.push(n);
        };
        for (let n = 1; n <= 5; n++) await charge(n);
        limitFiles(host, 1);
        const failures = [];
        for (let n = 6; n <= 8; n++) failures.push(await failureOf(charge(n)));
        // The write-behind may have met the full disk before the first call arrived.
        assert.deepEqual(failures.slice(1), [isSafe, isSafe]);
        const unknown = failures[0]?.mayHaveRun === true ? [6] : [];
        assert.deepEqual(ran, [1, 2, 3, 4, 5, ...unknown], 'nothing runs on a disk that is known to be full');
        if (recovers) {
          limitFiles(host, 'unlimited');
          for (let n = 9; n <= 12; n++) await charge(n);
        }
        await here.kill(host);
        await here.up();
        await charge(13);
        const stored = (await here.tail(agent.sessionId)).filter((line) => JSON.parse(line).kind === 'reply');
        assert.deepEqual(
          stored.map((line) => Number(/"n":(\d+)/.exec(line)?.[1])),
          acknowledged,
        );
      });
    }
  }
});
