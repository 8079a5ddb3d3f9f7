/** Events that a memory survives: kill -9 while it writes, several concurrent processes, flipped bits, a truncated file. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { MemoryEngine } from '../../../src/capabilities/memory/engine/engine.ts';
import { MEMORY_DEFAULTS } from '../../../src/capabilities/memory/limits.ts';
import { HandfastError } from '../../../src/wire/errors.ts';
import { memoryHost, temporaryFolder } from './support.ts';

const asker = { principal: 'ada', agent: 'writers', session: 'reader' };

function engineIn(t: TestContext, folder: string): MemoryEngine {
  const { maxEntries, maxBytes, maxEntryBytes, historyVersions, workingDays } = MEMORY_DEFAULTS;
  const engine = new MemoryEngine({
    folder,
    quotaEntries: maxEntries,
    quotaBytes: maxBytes,
    maxEntryBytes,
    historyVersions,
    workingDays,
  });
  t.after(() => engine.close());
  return engine;
}

/** Starts a writer; `acked` are the requests that it reported. */
function writer(folder: string, name: string, requests: number, size: number, bytes = 40, before: string[] = []) {
  const file = join(import.meta.dirname, 'writer-process.ts');
  const words = ['-C', 'handfast-source', file, folder, name, String(requests), String(size), String(bytes)];
  const [program = '', ...args] = [...before, process.execPath, ...words];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const acked: number[] = [];
  const started = Promise.withResolvers<void>();
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'ready') started.resolve();
    else acked.push(Number(line));
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  void ended.then(() => started.resolve());
  return { child, acked, started: started.promise, ended, errors: () => stderr };
}

/** Returns the requests of a writer that are in the memory, with the number of entries of each. */
async function requestsOf(engine: MemoryEngine, name: string): Promise<Map<number, number>> {
  const { memory } = await engine.run('init', asker, { agent: 'writers', namespace: 'shared', scope: {} });
  const found = new Map<number, number>();
  let cursor = '';
  do {
    const page = await engine.run('retrieve', asker, {
      memory,
      spaces: [],
      keys: [],
      tags: [`of-${name}`],
      tier: undefined,
      query: '',
      limit: 1000,
      minScore: 0,
      cursor,
      asOf: undefined,
      ranking: 'hybrid',
      allVersions: false,
    });
    for (const { key } of page.entries) {
      const { request } = key as { request: number };
      found.set(request, (found.get(request) ?? 0) + 1);
    }
    cursor = page.next_cursor ?? '';
  } while (cursor !== '');
  return found;
}

test('kill -9 while it writes: what was acknowledged is there, requests are there whole or not at all', {
  timeout: 300_000,
}, async (t) => {
  const folder = temporaryFolder(t);
  const size = 7;
  for (let round = 0; round < 6; round += 1) {
    const name = `killed-${round}`;
    const one = writer(folder, name, 100_000, size);
    await one.started;
    await new Promise((resolve) => setTimeout(resolve, 40 + 60 * round));
    one.child.kill('SIGKILL');
    await one.ended;
    const engine = engineIn(t, folder);
    const found = await requestsOf(engine, name);
    for (const request of one.acked) assert.equal(found.get(request), size, `request ${request} of round ${round}`);
    for (const [request, entries] of found) assert.equal(entries, size, `request ${request} of round ${round}`);
    await engine.close();
  }
});

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

test('a full disk: requests are refused with disk_full and store nothing, what is there is read, and later ones succeed', {
  skip: noLimit,
  timeout: 120_000,
}, async (t) => {
  const folder = temporaryFolder(t);
  const size = 5;
  // A file that may not grow is a full disk for all writers.
  const one = writer(folder, 'full', 100_000, size, 400, ['prlimit', '--fsize=1500000']);
  assert.equal(await one.ended, 1, one.errors());
  assert.ok(one.acked.length > 5, 'it wrote until the limit');
  assert.equal(one.errors().trim(), `failed disk_full, readable ${one.acked.length * size}`);
  const engine = engineIn(t, folder);
  const found = await requestsOf(engine, 'full');
  assert.deepEqual(
    [...found].sort(([left], [right]) => left - right),
    one.acked.map((request) => [request, size]),
  );
  await engine.close();
  const next = writer(folder, 'next', 10, size);
  assert.equal(await next.ended, 0, next.errors());
});

test('eight processes write 5,000 entries each at once: every entry is there, and no writer fails for a lock', {
  timeout: 300_000,
}, async (t) => {
  const folder = temporaryFolder(t);
  const engine = engineIn(t, folder);
  await requestsOf(engine, 'none');
  const requests = 100;
  const size = 50;
  const writers = Array.from({ length: 8 }, (_, n) => writer(folder, `w${n}`, requests, size));
  for (const one of writers) assert.equal(await one.ended, 0, one.errors());
  for (let n = 0; n < writers.length; n += 1) {
    const found = await requestsOf(engine, `w${n}`);
    assert.equal(found.size, requests);
    assert.ok([...found.values()].every((entries) => entries === size));
  }
  const { memory } = await engine.run('init', asker, { agent: 'writers', namespace: 'shared', scope: {} });
  const search = {
    memory,
    spaces: [],
    keys: [],
    tags: [],
    tier: undefined,
    query: 'w3 24 9',
    limit: 3,
    minScore: 0,
    cursor: '',
    asOf: undefined,
    ranking: 'hybrid',
    allVersions: false,
  } as const;
  const { entries } = await engine.run('retrieve', asker, search);
  assert.deepEqual(entries[0]?.key, { writer: 'w3', request: 24, at: 9 }, 'the index has what other processes wrote');
});

/** Returns the database of ada below the data folder of a closed host. */
const fileIn = (folder: string): string => {
  const name = readdirSync(join(folder, 'memory')).find((one) => /^[0-9a-f]{32}\.db$/.test(one));
  return join(folder, 'memory', name as string);
};

/** Flips a bit in some pages of a file, never in the first: random, but equal in every run. */
function flipBits(file: string, count: number): void {
  const descriptor = openSync(file, 'r+');
  const pages = Math.floor(statSync(file).size / 4096);
  let state = 12_345;
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state % below;
  };
  const byte = Buffer.alloc(1);
  for (let n = 0; n < count; n += 1) {
    const at = (1 + random(pages - 1)) * 4096 + random(4096);
    readSync(descriptor, byte, 0, 1, at);
    byte[0] = (byte[0] as number) ^ (1 << random(8));
    writeSync(descriptor, byte, 0, 1, at);
  }
  closeSync(descriptor);
}

for (const [name, damage] of [
  ['flipped bits in two hundred pages', (file: string) => flipBits(file, 200)],
  ['a file that is cut in half', (file: string) => truncateSync(file, Math.floor(statSync(file).size / 8192) * 4096)],
  ['a file of other bytes', (file: string) => writeSync(openSync(file, 'r+'), Buffer.alloc(8192, 'x'), 0, 8192, 0)],
] as const) {
  test(`${name}: reported once, set aside, and what can be read is taken over`, { timeout: 120_000 }, async (t) => {
    const folder = temporaryFolder(t);
    const first = await memoryHost(t, {}, folder);
    const before = await first.memory();
    const content = (n: number) => `note ${n} ${'lorem ipsum '.repeat(40)}`;
    for (let n = 0; n < 300; n += 100) {
      await before.store(Array.from({ length: 100 }, (_, at) => ({ key: `k${n + at}`, content: content(n + at) })));
    }
    await first.close();
    const file = fileIn(folder);
    damage(file);
    const second = await memoryHost(t, {}, folder);
    let told: HandfastError | undefined;
    let entries: readonly { readonly key: Record<string, unknown>; readonly content: unknown }[] = [];
    // Damage is found when the file is opened, or when the damaged part is read.
    for (let tries = 0; tries < 3; tries += 1) {
      try {
        const memory = await second.memory();
        entries = (await memory.list({ limit: 1000 })).entries;
        await memory.search('lorem');
        await memory.store({ key: 'new', content: 'works' });
        assert.equal((await memory.get('new'))?.content, 'works');
        break;
      } catch (thrown) {
        assert.ok(thrown instanceof HandfastError);
        assert.equal(thrown.code, 'memory.damaged', thrown.message);
        told = thrown;
      }
    }
    assert.ok(told !== undefined, 'the damage was reported');
    assert.match(told.message, /set aside|damaged file is [0-9a-f]+\.db\.corrupt-/);
    assert.equal(readdirSync(join(folder, 'memory')).filter((one) => one.includes('.corrupt-')).length > 0, true);
    for (const { key, content: found } of entries) {
      assert.equal(
        found,
        content(Number(String(key.key).slice(1))),
        'nothing that was read is other than what was written',
      );
    }
    t.diagnostic(`${entries.length} of 300 entries recovered`);
  });
}

test('entries that are too large, and more of them than a request may have, are refused', {
  timeout: 60_000,
}, async (t) => {
  const memory = await (await memoryHost(t)).memory();
  const { stored, errors } = await memory.store({ key: 'big', content: 'x'.repeat(300_000) });
  assert.deepEqual(stored, []);
  assert.match(errors[0] ?? '', /^entries\[0\]: has \d+ bytes, more than the 262144/);
  const many = Array.from({ length: 1001 }, (_, n) => ({ key: `k${n}`, content: n }));
  await assert.rejects(memory.store(many).then(), { code: 'schema_violation' });
  assert.equal((await memory.list({ limit: 0 })).total, 0);
});
