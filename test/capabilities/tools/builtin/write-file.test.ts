import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, readFile, readlink, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { locate } from '../../../../src/base/workspace/workspace-path.ts';
import { replaceFile } from '../../../../src/capabilities/tools/builtin/atomic-write.ts';
import { writeFile } from '../../../../src/capabilities/tools/builtin/index.ts';
import { call, failsWith, makeWorkspace, testCall } from './support.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

test('a new file is created and an existing one replaced', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace);
  const first = await call(writeFile, { path: 'a.txt', content: 'one' }, context);
  assert.deepEqual(first, { path: 'a.txt', bytes: 3, created: true, sha256: sha256('one') });
  const second = await call(writeFile, { path: 'a.txt', content: 'zwei €' }, context);
  assert.deepEqual(second, { path: 'a.txt', bytes: 8, created: false, sha256: sha256('zwei €') });
  assert.equal(await readFile(join(workspace, 'a.txt'), 'utf8'), 'zwei €');
  assert.deepEqual(await readdir(workspace), ['a.txt'], 'a temporary file was left');
});

test('base64 content is written as bytes and refused when it is damaged', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace);
  await call(writeFile, { path: 'b', content: 'AAH/\n', encoding: 'base64' }, context);
  assert.deepEqual([...(await readFile(join(workspace, 'b')))], [0, 1, 255]);
  for (const content of ['A', 'AA=A', 'a*==', 'AAAAA']) {
    const bad = call(writeFile, { path: 'b', content, encoding: 'base64' }, context);
    await assert.rejects(bad, failsWith('tool_error', 'invalid_base64'), content);
  }
});

test('the permissions of an existing file are kept', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'run.sh': '#!/bin/sh\n', private: 'x' });
  await chmod(join(workspace, 'run.sh'), 0o755);
  await chmod(join(workspace, 'private'), 0o600);
  for (const [path, mode] of [
    ['run.sh', 0o755],
    ['private', 0o600],
  ] as const) {
    await call(writeFile, { path, content: 'new' }, testCall(workspace));
    assert.equal((await stat(join(workspace, path))).mode & 0o777, mode);
  }
});

test('missing directories are created only when asked for', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const args = { path: 'x/y/z.txt', content: 'deep' };
  await assert.rejects(call(writeFile, args, testCall(workspace)), failsWith('tool_error', 'not_found'));
  assert.deepEqual(await readdir(workspace), []);
  await call(writeFile, { ...args, create_dirs: true }, testCall(workspace));
  assert.equal(await readFile(join(workspace, 'x/y/z.txt'), 'utf8'), 'deep');
});

test('without overwrite an existing file stays, and of many writers one wins', async (t) => {
  const { workspace } = await makeWorkspace(t, { old: 'old' });
  const args = { path: 'old', content: 'new', overwrite: false };
  await assert.rejects(call(writeFile, args, testCall(workspace)), failsWith('tool_error', 'exists'));
  assert.equal(await readFile(join(workspace, 'old'), 'utf8'), 'old');
  const writers = Array.from({ length: 12 }, (_, index) =>
    call(writeFile, { path: 'fresh', content: `writer ${index}`, overwrite: false }, testCall(workspace)),
  );
  const settled = await Promise.allSettled(writers);
  const winner = settled.findIndex(({ status }) => status === 'fulfilled');
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.equal(await readFile(join(workspace, 'fresh'), 'utf8'), `writer ${winner}`);
  assert.deepEqual((await readdir(workspace)).sort(), ['fresh', 'old']);
});

test('expected_sha256 refuses to write over a change', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'mine' });
  const context = testCall(workspace);
  const write = (expected: string, path = 'f') =>
    call(writeFile, { path, content: 'next', expected_sha256: expected }, context);
  await assert.rejects(write(sha256('theirs')), (error: Error & { detail?: Record<string, unknown> }) => {
    assert.ok(failsWith('tool_error', 'conflict')(error));
    assert.equal(error.detail?.actual_sha256, sha256('mine'));
    return true;
  });
  await assert.rejects(write(sha256(''), 'missing'), failsWith('tool_error', 'conflict'));
  await write(sha256('mine').toUpperCase());
  assert.equal(await readFile(join(workspace, 'f'), 'utf8'), 'next');
});

test('of many writers that expect the same content one wins', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'start' });
  const writers = Array.from({ length: 12 }, (_, index) =>
    call(writeFile, { path: 'f', content: `writer ${index}`, expected_sha256: sha256('start') }, testCall(workspace)),
  );
  const settled = await Promise.allSettled(writers);
  const winners = settled.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
  assert.equal(winners.length, 1);
  assert.equal(await readFile(join(workspace, 'f'), 'utf8'), `writer ${winners[0]}`);
  for (const one of settled) if (one.status === 'rejected') assert.ok(failsWith('tool_error', 'conflict')(one.reason));
});

test('a link is kept and what it points to is written', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'real/f': 'old' });
  await symlink('real/f', join(workspace, 'link'));
  const written = await call(writeFile, { path: 'link', content: 'new' }, testCall(workspace));
  assert.equal(written.path, 'real/f');
  assert.equal(await readlink(join(workspace, 'link')), 'real/f');
  assert.equal(await readFile(join(workspace, 'real/f'), 'utf8'), 'new');
});

test('a directory is not written over', async (t) => {
  const { workspace } = await makeWorkspace(t);
  await mkdir(join(workspace, 'd'));
  for (const path of ['d', '.']) {
    await assert.rejects(
      call(writeFile, { path, content: '' }, testCall(workspace)),
      failsWith('tool_error', 'is_a_directory'),
    );
  }
});

test('readers in another thread see whole versions only', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'a'.repeat(200_000) });
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const reader = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     const { readFileSync } = require('node:fs');
     let reads = 0, torn = 0;
     while (Atomics.load(workerData.stop, 0) === 0 || reads === 0) {
       const text = readFileSync(workerData.path, 'latin1');
       if (text.length !== 200000 || text !== text[0].repeat(200000)) torn += 1;
       reads += 1;
     }
     parentPort.postMessage({ reads, torn });`,
    { eval: true, workerData: { path: join(workspace, 'f'), stop } },
  );
  t.after(() => reader.terminate());
  const counted = new Promise<{ reads: number; torn: number }>((resolve, reject) => {
    reader.once('message', resolve);
    reader.once('error', reject);
  });
  for (let round = 0; round < 40; round += 1) {
    const letter = 'abcdefgh'[round % 8]!;
    await call(writeFile, { path: 'f', content: letter.repeat(200_000) }, testCall(workspace));
  }
  Atomics.store(stop, 0, 1);
  const { reads, torn } = await counted;
  assert.ok(reads > 0);
  assert.equal(torn, 0);
});

test('a write that fails or is given up leaves neither change nor temporary file', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'old' });
  const context = testCall(workspace);
  context.cancel();
  await assert.rejects(call(writeFile, { path: 'f', content: 'x'.repeat(1e6) }, context), failsWith('cancelled'));
  await using place = await locate(workspace, 'f');
  const { signal } = testCall(workspace);
  // A file of another user has the temporary name: it is neither written through nor removed.
  await symlink('elsewhere', join(workspace, '.taken.tmp'));
  const clash = replaceFile(place, Buffer.from('new'), { expect: 'anything', signal, randomName: () => 'taken' });
  await assert.rejects(clash, failsWith('tool_error', 'exists'));
  assert.ok((await lstat(join(workspace, '.taken.tmp'))).isSymbolicLink());
  assert.equal(await readFile(join(workspace, 'f'), 'utf8'), 'old');
  assert.deepEqual((await readdir(workspace)).sort(), ['.taken.tmp', 'f']);
});

test('a change between the look and the rename is noticed', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'old' });
  await using place = await locate(workspace, 'f');
  const { signal } = testCall(workspace);
  const stale = { ino: 1n, size: 3n, mtimeNs: 0n, ctimeNs: 0n };
  assert.equal(await replaceFile(place, Buffer.from('new'), { expect: stale, signal }), false);
  assert.equal(await readFile(join(workspace, 'f'), 'utf8'), 'old');
  assert.deepEqual(await readdir(workspace), ['f']);
});
