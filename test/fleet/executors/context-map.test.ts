/**
 * Data of executors about conversations: on disk before it counts, bounded, and not lost with a damaged file.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ContextMap } from '../../../src/fleet/executors/context-map.ts';
import { rehearsalExecutor } from '../../../src/fleet/executors/rehearsal/rehearsal.ts';

interface Entry {
  readonly id: string;
}

const read = (value: Readonly<Record<string, unknown>>): Entry | undefined =>
  typeof value.id === 'string' ? { id: value.id } : undefined;

function place(): { file: string; folder: string; [Symbol.dispose](): void } {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-contexts-'));
  return {
    folder,
    file: join(folder, 'executor', 'x.json'),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

test('what was set is there after a restart, what was deleted is not, and no draft stays behind', async () => {
  using at = place();
  const map = new ContextMap({ file: at.file, read });
  await Promise.all([map.set('__proto__', { id: 'p' }), map.set('b', { id: '2' }), map.set('c', { id: '3' })]);
  await map.delete('b');
  const again = new ContextMap({ file: at.file, read });
  assert.deepEqual(
    ['__proto__', 'b', 'c', 'constructor'].map((id) => again.get(id)),
    [{ id: 'p' }, undefined, { id: '3' }, undefined],
  );
  assert.deepEqual(readdirSync(join(at.folder, 'executor')), ['x.json']);
});

test('the conversation used longest ago goes first', async () => {
  const map = new ContextMap<Entry>({ file: undefined, read, maxEntries: 2 });
  await map.set('a', { id: '1' });
  await map.set('b', { id: '2' });
  await map.set('a', { id: '1' });
  await map.set('c', { id: '3' });
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => map.has(id)),
    [true, false, true],
  );
});

test('a damaged file is set aside and told', () => {
  using at = place();
  const file = join(at.folder, 'x.json');
  writeFileSync(file, '[["a", {"id"');
  const told: string[] = [];
  const map = new ContextMap({ file, read, damaged: (kept) => told.push(kept) });
  assert.equal(map.has('a'), false);
  assert.deepEqual(told, [`${file}.damaged`]);
  assert.ok(existsSync(`${file}.damaged`));
});

test('a change that cannot be written is reported to its caller, and the next one is tried again', async () => {
  using at = place();
  const map = new ContextMap({ file: at.file, read });
  writeFileSync(join(at.folder, 'executor'), 'a file where the folder should be');
  await assert.rejects(map.set('a', { id: '1' }));
  assert.deepEqual(map.get('a'), { id: '1' });
  rmSync(join(at.folder, 'executor'));
  await map.set('b', { id: '2' });
  assert.equal(new ContextMap({ file: at.file, read }).has('a'), true);
});

test('a folder and a pipe in the place of the file fail with its name, and nothing waits for a writer', () => {
  using at = place();
  mkdirSync(join(at.folder, 'folder.json'));
  execFileSync('mkfifo', [join(at.folder, 'pipe.json')]);
  for (const name of ['folder.json', 'pipe.json']) {
    const file = join(at.folder, name);
    assert.throws(() => new ContextMap({ file, read }), {
      code: 'runtime_error',
      message: `the conversations of an executor cannot be read: ${file} is not a file; move it away, or correct its rights`,
    });
  }
});

test('the rehearsal says where its damaged conversations are', () => {
  using at = place();
  const contextFile = join(at.folder, 'rehearsal.json');
  writeFileSync(contextFile, 'not JSON');
  const told: unknown[] = [];
  rehearsalExecutor({ contextFile, log: { warn: (...entry) => told.push(entry) } });
  assert.deepEqual(told, [
    ['quarantined the damaged conversations of the rehearsal', { movedTo: `${contextFile}.damaged` }],
  ]);
});
