/**
 * Long images of a conversation are stored once, as files; all readers of the conversation get them whole: live and replayed
 * events, states, pages, exports, forks, saved chats, the model, the next process.
 */
// A process of its own: it expects that no other store of the process fails.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { failingStores, onFailingStore } from '../../../src/base/failing-stores.ts';
import { type DatabaseLoss, toldLosses } from '../../../src/base/sqlite/losses.ts';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import {
  queueList,
  sessionDelete,
  sessionExport,
  sessionFork,
  sessionGet,
  sessionImport,
  sessionMessages,
  sessionSend,
} from '../../../src/protocol/session-rpc.ts';
import { ALICE, Harness, type HarnessOptions } from './harness.ts';

const BYTES = 300_000;
const HEAD = 'data:image/png;base64,';
const picture = (): string => `${HEAD}${randomBytes(BYTES).toString('base64')}`;

interface Data {
  readonly folder: string;
  readonly lost: unknown[];
  readonly losses: DatabaseLoss[];
  start(options?: HarnessOptions): Promise<Harness>;
  /** Returns the files of images, by the folder of their holder. */
  files(): Record<string, string[]>;
}

function dataDirectory(t: TestContext): Data {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-images-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  const images = join(folder, 'session-images');
  const lost: unknown[] = [];
  const losses: DatabaseLoss[] = [];
  return {
    folder,
    lost,
    losses,
    async start(options = {}) {
      const journal = await sqliteJournal({ file: join(folder, 'journal.db') });
      const store = openSessionStore({
        file: join(folder, 'sessions.db'),
        onLostImage: (one) => lost.push(one),
        onLoss: (loss) => losses.push(loss),
      });
      return Harness.start({ journal, store, ...options });
    },
    files() {
      const holders = readdirSync(images).filter((name) => !name.startsWith('deleted-'));
      return Object.fromEntries(holders.map((name) => [name, readdirSync(join(images, name))]));
    },
  };
}

const told = (losses: readonly DatabaseLoss[]) =>
  toldLosses(losses).map(({ message, acknowledged }) => [message, acknowledged]);

/** Sends a prompt with images and waits for the end of its turn. */
async function shown(harness: Harness, session: string, ...urls: readonly string[]): Promise<string> {
  harness.backend.script({ text: 'I see' });
  const images = urls.map((data_url, at) => ({ path: `${at}.png`, data_url }));
  const turn = await harness.send(session, 'look', { images });
  await harness.ended(turn);
  return turn;
}

const imagesOf = (items: readonly object[]): string[] =>
  items.flatMap((item) => ((item as { images?: { dataUrl: string }[] }).images ?? []).map(({ dataUrl }) => dataUrl));

async function seenIn(harness: Harness, session: string): Promise<string[][]> {
  const { messages, history } = await harness.call(sessionGet, { session_id: session });
  const page = await harness.call(sessionMessages, { session_id: session });
  const { events } = await harness.sessions.events.read(session, 0, 1000);
  const appended = events.filter(({ type }) => type === 'session.message.appended');
  const replayed = appended.flatMap(({ line }) => imagesOf([JSON.parse(line).params.payload.message]));
  const inMemory = appended.flatMap(({ params }) => imagesOf([params.payload.message as object]));
  return [imagesOf(messages), imagesOf(history), imagesOf(page.messages), replayed, inMemory];
}

test('an image is in one file, and every reader gets it, before and after a restart', async (t) => {
  const data = dataDirectory(t);
  const url = picture();
  let harness = await data.start();
  const id = await harness.create();
  await shown(harness, id, url, 'data:image/png;base64,iVBORw0KGgo=');
  const live = harness.events(id).filter(({ type }) => type === 'session.message.appended');
  const [first] = live.map(({ payload }) => imagesOf([payload.message]));
  assert.deepEqual(first, [url, 'data:image/png;base64,iVBORw0KGgo=']);
  assert.deepEqual(
    harness.published.filter(({ line }) => line.includes(url)).map(({ type }) => type),
    ['session.message.appended'],
  );
  for (const seen of await seenIn(harness, id)) assert.deepEqual(seen, first);
  const { [`session-${id}`]: files, ...others } = data.files();
  assert.equal(files?.length, 1);
  assert.equal(Object.keys(others).length, 1, 'the saved chat names that file, too');
  assert.equal(statSync(join(data.folder, 'session-images', `session-${id}`, files?.[0] ?? '')).nlink, 2);
  const stored = ['journal.db', 'journal.db-wal', 'sessions.db', 'sessions.db-wal'];
  const bytes = stored.reduce(
    (all, name) => all + (statSync(join(data.folder, name), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
  assert.ok(bytes < BYTES, `the databases have ${bytes} bytes`);
  await harness.stop();

  harness = await data.start();
  for (const seen of await seenIn(harness, id)) assert.deepEqual(seen, first);
  await shown(harness, id, 'data:image/png;base64,iVBORw0KGgo=');
  const asked = harness.backend.requests.at(-1);
  assert.deepEqual(imagesOf(asked?.history ?? []).slice(0, 2), first);
  await harness.stop();
});

test('the model of a long session gets the images of all turns, and its texts', async (t) => {
  const data = dataDirectory(t);
  let harness = await data.start();
  const id = await harness.create();
  const urls = Array.from({ length: 40 }, picture);
  for (const url of urls) await shown(harness, id, url);
  await harness.stop();
  harness = await data.start();
  await shown(harness, id);
  assert.deepEqual(imagesOf(harness.backend.requests.at(-1)?.history ?? []), urls);
  await harness.stop();
});

test('forks, saved chats, exports and imports have the image, and keep it when its session is deleted', async (t) => {
  const data = dataDirectory(t);
  const url = picture();
  const harness = await data.start();
  const id = await harness.create();
  await shown(harness, id, url);
  const { activeSessionId } = await harness.call(sessionGet, { session_id: id });
  assert.ok(activeSessionId !== null);
  const fork = (await harness.call(sessionFork, { session_id: id })).session_id;
  const { lines } = await harness.call(sessionExport, { session_id: id });
  assert.ok(lines.join('').includes(url));
  const imported = (await harness.call(sessionImport, { lines })).session_id;
  const other = await harness.create();
  await harness.sessions.resumeChat(other, activeSessionId, ALICE);
  // Another session has continued its chat, so that stays.
  await shown(harness, other);
  await harness.call(sessionDelete, { session_id: id });
  assert.equal(data.files()[`session-${id}`], undefined);
  for (const one of [fork, imported, other]) {
    const { messages, history } = await harness.call(sessionGet, { session_id: one });
    assert.deepEqual([...imagesOf(messages), ...imagesOf(history)], [url, url], one);
  }
  for (const one of [fork, imported]) {
    assert.equal(data.files()[`session-${one}`]?.length, 1);
    await harness.call(sessionDelete, { session_id: one });
  }
  assert.deepEqual(Object.keys(data.files()).sort(), [`chat-${activeSessionId}`, `session-${other}`].sort());
  await harness.stop();
});

test('the share of the disk counts an image of a session once, however often the session gets it', async (t) => {
  const data = dataDirectory(t);
  let harness = await data.start();
  const url = picture();
  const id = await harness.create();
  await shown(harness, id, url);
  const { activeSessionId } = await harness.call(sessionGet, { session_id: id });
  assert.ok(activeSessionId !== null);
  const used = (): number => harness.sessions.storage.used;
  const before = used();
  await harness.call(sessionFork, { session_id: id });
  assert.ok(used() - before < 1.5 * url.length, 'its message and its history name one file');
  const forked = used();
  for (let time = 0; time < 3; time += 1) await harness.sessions.resumeChat(id, activeSessionId, ALICE);
  assert.ok(used() - forked < url.length, 'the session had the file');
  const stopped = used();
  await harness.stop();
  harness = await data.start();
  assert.ok(Math.abs(used() - stopped) < url.length, 'a restart counts what was counted');
  await harness.stop();
});

test('an import stores an image once that a message has twice', async (t) => {
  const data = dataDirectory(t);
  const harness = await data.start();
  const [url, byteSize] = [picture(), BYTES];
  const image = { path: 'a.png', mimeType: 'image/png', byteSize, dataUrl: url };
  const payload = {
    head: {},
    messages: [{ id: 1, kind: 'user', text: 'look', images: [image, image] }],
    history: [{ role: 'user', turn: 't', text: 'look', images: [image, image] }],
    turns: [],
  };
  const lines = [{ format: 'handfast.session/1' }, { seq: 1, kind: 'record.restored', timestamp: '', payload }];
  const { session_id } = await harness.call(sessionImport, { lines: lines.map((line) => JSON.stringify(line)) });
  const { messages, history } = await harness.call(sessionGet, { session_id });
  assert.deepEqual(
    [imagesOf(messages), imagesOf(history)],
    [
      [url, url],
      [url, url],
    ],
  );
  assert.equal(data.files()[`session-${session_id}`]?.length, 1);
  await harness.stop();
});

test('prompts that wait have their images, in their order, and after a restart', async (t) => {
  const data = dataDirectory(t);
  const [one, two] = [picture(), picture()];
  const never = Promise.withResolvers<void>();
  let harness = await data.start();
  const id = await harness.create();
  harness.backend.script({ text: 'busy', after: never.promise });
  await harness.send(id, 'first');
  const waiting = [
    harness.call(sessionSend, { session_id: id, text: 'second', images: [{ data_url: one }], enqueue: true }),
    harness.call(sessionSend, { session_id: id, text: 'third', enqueue: true }),
    harness.call(sessionSend, { session_id: id, text: 'fourth', images: [{ data_url: two }], enqueue: true }),
    harness.call(sessionSend, {
      session_id: id,
      text: 'fifth',
      images: [{ data_url: `${HEAD}${'*'.repeat(BYTES)}` }],
      enqueue: true,
    }),
  ];
  await Promise.all(waiting);
  const { queue } = await harness.call(queueList, { session_id: id });
  assert.deepEqual(
    queue.map(({ text }) => text),
    ['second', 'third', 'fourth', 'fifth'],
  );
  assert.deepEqual(
    queue.map(({ images }) => images[0]?.data_url),
    [one, undefined, two, `${HEAD}!`],
  );
  const { storage } = harness.sessions;
  assert.ok(storage.used > one.length + two.length);
  harness.backend.rescript({ text: 'a' }, { text: 'b' }, { text: 'c' });
  never.resolve();
  const refused = await harness.event(({ type }) => type === 'session.error');
  assert.match(refused.payload.message, /invalid image data_url payload/);
  await harness.stop();
  harness = await data.start();
  assert.ok(harness.sessions.storage.used > one.length + two.length, 'a restart forgives nothing');
  const { messages } = await harness.call(sessionGet, { session_id: id });
  assert.deepEqual(imagesOf(messages), [one, two]);
  await harness.stop();
});

test('a session that is deleted while its image is stored leaves no file', async (t) => {
  const data = dataDirectory(t);
  const harness = await data.start();
  const id = await harness.create();
  const images = [{ data_url: picture() }, { data_url: picture() }];
  const sent = harness.call(sessionSend, { session_id: id, text: 'look', images, enqueue: true });
  await Promise.allSettled([harness.call(sessionDelete, { session_id: id }), sent]);
  assert.equal(data.files()[`session-${id}`], undefined);
  await harness.stop();
});

test('an image whose file is damaged is reported, and the conversation is read', async (t) => {
  const data = dataDirectory(t);
  const harness = await data.start();
  const id = await harness.create();
  await shown(harness, id, picture());
  const [name = ''] = data.files()[`session-${id}`] ?? [];
  const file = join(data.folder, 'session-images', `session-${id}`, name);
  const bytes = readFileSync(file);
  bytes[1000] = (bytes[1000] ?? 0) ^ 1;
  writeFileSync(file, bytes);
  await new Promise(setImmediate);
  const { messages } = await harness.call(sessionGet, { session_id: id });
  assert.deepEqual(imagesOf(messages), [HEAD]);
  assert.match(JSON.stringify(data.lost), /checksum/);
  const isLoss = [['parts of the images of conversations are lost', true]];
  assert.deepEqual(told(data.losses), isLoss);
  rmSync(file);
  await new Promise(setImmediate);
  assert.deepEqual(imagesOf((await harness.call(sessionGet, { session_id: id })).messages), [HEAD]);
  assert.equal(data.lost.length, 2);
  assert.deepEqual(told(data.losses), isLoss, 'the first one is a loss of all');
  await harness.stop();
  data.losses.length = 0;
  await (await data.start()).stop();
  assert.deepEqual(told(data.losses), isLoss, 'until it is acknowledged');
  rmSync(join(data.folder, 'session-images.lost'));
  assert.deepEqual(told(data.losses), []);
});

test('a folder of images that cannot be written is among the failing stores until it can', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-images-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = openSessionStore({ file: join(folder, 'sessions.db') });
  t.after(() => store.close());
  const images = join(folder, 'session-images');
  writeFileSync(images, '');
  const told: string[] = [];
  t.after(onFailingStore((failure) => told.push(failure.message)));
  const put = () => store.images.put('session-one', { dataUrl: picture(), path: 'one.png' } as never);
  await assert.rejects(put(), { message: /^the folder of images could not .*\(ENOTDIR\); check the disk/ });
  assert.equal(told.length, 1);
  rmSync(images);
  await put();
  assert.deepEqual(failingStores(), []);
});
