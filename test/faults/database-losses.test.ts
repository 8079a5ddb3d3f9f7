/**
 * F-120 over the databases beside the journals: the newest writes are gone after a kill, because the log was cut, flipped or
 * deleted, the file was deleted, or an older copy took its place. The loss is reported once it is opened, and then until it is
 * acknowledged; a database without damage reports nothing.
 */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import type { DatabaseLoss } from '../../src/base/sqlite/losses.ts';
import { lossesBelow, noteLoss, openLosses } from '../../src/base/sqlite/losses.ts';
import { MemoryDatabase } from '../../src/capabilities/memory/engine/database.ts';
import { openSessionStore } from '../../src/control/sessions/store/store.ts';
import { openA2aTaskStore } from '../../src/fleet/bus/a2a/task-store.ts';
import { sqliteTaskStore } from '../../src/fleet/orchestrator/store-sqlite.ts';
import { SqliteWorkerJournal } from '../../src/fleet/worker/journal-sqlite.ts';
import { openStateDatabase } from '../../src/host/store/database.ts';
import { NOW, record } from '../contract/task-store.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

interface Opened {
  /** Writes one more; resolves when it is acknowledged. */
  write(number: number): Promise<unknown>;
  close(): Promise<void> | void;
}

interface Kind {
  readonly name: string;
  /** True where a write is on disk when it is acknowledged. */
  readonly synced: boolean;
  open(file: string, onLoss: (loss: DatabaseLoss) => void): Promise<Opened>;
}

const ignore = (): void => {};

const kinds: Record<string, Kind> = {
  'the state of plugins: plans, chains, learning': {
    name: 'state.db',
    synced: true,
    async open(file, onLoss) {
      const state = openStateDatabase({ file, onCorrupt: ignore, onLoss });
      const store = state.plugin('planning', { shared: true } as never).shared;
      return { write: (number) => store.set(`k${number}`, number), close: () => state.close() };
    },
  },
  'a memory': {
    name: 'memory.db',
    synced: true,
    async open(file, onLoss) {
      const database = MemoryDatabase.open({ file, onCorrupt: ignore, onLoss });
      return {
        write: (number) => database.write(() => database.makePart(`p${number}`)),
        close: () => database.close(),
      };
    },
  },
  'the task store': {
    name: 'tasks.db',
    synced: true,
    async open(file, onLoss) {
      const store = await sqliteTaskStore({ file, onCorrupt: ignore, onLoss });
      return { write: (number) => store.put(record(`t-${number}`, number), 0), close: () => store.close() };
    },
  },
  'the journal of a worker': {
    name: 'worker.db',
    synced: true,
    async open(file, onLoss) {
      const journal = new SqliteWorkerJournal(dirname(file), () => NOW);
      if (journal.loss !== undefined) onLoss(journal.loss);
      return {
        write: (number) => journal.decline({ taskId: `t-${number}`, attempt: 1, digest: '', reason: '' } as never),
        close: () => journal.close(),
      };
    },
  },
  'the tasks of an A2A agent': {
    name: 'a2a.db',
    synced: false,
    async open(file, onLoss) {
      const sdk = {} as Parameters<typeof openA2aTaskStore>[0]['sdk'];
      const store = openA2aTaskStore({ file, sdk, passing: () => false, onCorrupt: ignore, onLoss });
      const link = { channel: 'c', attempt: 1, tenant: '', owner: '', messageId: '', digest: '', form: '' };
      return {
        write: async (number) => store.link({ ...link, taskId: `t-${number}`, id: `${number}` }),
        close: () => store.close(),
      };
    },
  },
  'saved chats': {
    name: 'sessions.db',
    synced: false,
    async open(file, onLoss) {
      const store = openSessionStore({ file, onCorrupt: ignore, onLoss });
      const facts = { owner: 'ada', title: '', provider: null, model: '', thinking: 'OFF', origin: 's' } as const;
      return {
        write: async (number) => store.chats.write({ ...facts, id: `chat-${number}` }, 0, [], NOW),
        close: () => store.close(),
      };
    },
  },
};

/** Damages the files of a killed process; `older` is a copy of the database from before. */
const damages: Record<string, (file: string, older: string) => void> = {
  'its log cut to half': (file) => truncateSync(`${file}-wal`, Math.floor(readFileSync(`${file}-wal`).length / 2)),
  'its log emptied': (file) => truncateSync(`${file}-wal`),
  'one bit of its log flipped': (file) => {
    const bytes = readFileSync(`${file}-wal`);
    const middle = Math.floor(bytes.length / 2);
    bytes[middle] = (bytes[middle] as number) ^ 1;
    writeFileSync(`${file}-wal`, bytes);
  },
  'its log deleted': (file) => rmSync(`${file}-wal`),
  'its files deleted': (file) => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });
  },
  'the file deleted and its log left': (file) => rmSync(file),
  'an older copy in its place': (file, older) => {
    for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true });
    copyFileSync(older, file);
  },
};

for (const [title, kind] of Object.entries(kinds)) {
  describe(title, () => {
    /** Returns the files in the state after a kill, with writes in the log, and a copy of the file from before. */
    const killed = async (folder: string): Promise<{ file: string; older: string }> => {
      const from = join(folder, 'from', kind.name);
      const none = (loss: DatabaseLoss): void => assert.fail(JSON.stringify(loss));
      for (const number of [1, 2]) {
        const before = await kind.open(from, none);
        await before.write(number);
        await before.close();
      }
      const older = join(folder, 'older');
      copyFileSync(from, older);
      const live = await kind.open(from, none);
      for (let number = 3; number < 23; number += 1) await live.write(number);
      const to = join(folder, 'to');
      mkdirSync(to);
      for (const name of readdirSync(dirname(from))) {
        if (name.startsWith(kind.name) && !/lock|pid|shm/.test(name))
          copyFileSync(join(folder, 'from', name), join(to, name));
      }
      await live.close();
      return { file: join(to, kind.name), older };
    };

    it('reports nothing after a kill alone', async (t) => {
      const { file } = await killed(temporaryFolder(t));
      for (const _ of [1, 2]) await (await kind.open(file, (loss) => assert.fail(JSON.stringify(loss)))).close();
      assert.ok(!existsSync(`${file}.lost`));
    });

    for (const [damage, doIt] of Object.entries(damages)) {
      it(`reports ${damage}, until that is acknowledged`, async (t) => {
        const folder = temporaryFolder(t);
        const { file, older } = await killed(folder);
        doIt(file, older);
        const losses: DatabaseLoss[] = [];
        const opened = await kind.open(file, (loss) => losses.push(loss));
        const [loss] = losses;
        assert.ok(loss !== undefined && losses.length === 1);
        assert.ok(loss.ends_at < loss.of, `${loss.ends_at} of ${loss.of}`);
        if (kind.synced) assert.equal(loss.acknowledged, true);
        await opened.write(30);
        await opened.close();
        const again: DatabaseLoss[] = [];
        await (await kind.open(file, (each) => again.push(each))).close();
        assert.deepEqual(again, [loss]);
        const [found] = lossesBelow(folder);
        assert.deepEqual(found?.loss, loss);
        rmSync(found.record);
        await (await kind.open(file, () => assert.fail('it was acknowledged'))).close();
      });
    }
  });
}

describe('the losses of a process', () => {
  it('are logged once and listed until they are acknowledged', (t) => {
    const file = join(temporaryFolder(t), 'a.db');
    const loss = {
      what: 'the test',
      file,
      ends_at: 1,
      of: 3,
      acknowledged: true,
      found_at: '2031-01-01T00:00:00.000Z',
    };
    writeFileSync(`${file}.lost`, JSON.stringify(loss));
    const lines: [string, object | undefined][] = [];
    const log = { error: (message: string, fields?: object) => void lines.push([message, fields]) };
    noteLoss(log, loss);
    noteLoss(log, loss);
    assert.equal(lines.length, 1);
    assert.match(lines[0]?.[0] ?? '', /newest writes of the test are lost, writes that were acknowledged/);
    assert.deepEqual(
      lines.map(([, fields]) => (fields as { code: string }).code),
      ['journal_damaged'],
    );
    assert.ok(openLosses().some((each) => each.file === file));
    rmSync(`${file}.lost`);
    assert.ok(!openLosses().some((each) => each.file === file));
  });
});
