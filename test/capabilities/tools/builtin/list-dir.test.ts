import assert from 'node:assert/strict';
import { mkdir, symlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { listDir } from '../../../../src/capabilities/tools/builtin/index.ts';
import { call, callShaped, failsWith, makeWorkspace, put, testCall } from './support.ts';

const paths = (listing: { entries: { path: string }[] }): string[] => listing.entries.map(({ path }) => path);

test('entries come sorted with type, size and time', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'b.txt': 'four', 'a/inner': '' });
  await utimes(join(workspace, 'b.txt'), 0, 1_000_000_000);
  await symlink('b.txt', join(workspace, 'link'));
  const listing = await call(listDir, {}, testCall(workspace));
  assert.deepEqual(paths(listing), ['a', 'b.txt', 'link']);
  assert.deepEqual(listing.entries[1], { path: 'b.txt', type: 'file', size: 4, mtime: '2001-09-09T01:46:40.000Z' });
  assert.deepEqual(
    listing.entries.map(({ type }: { type: string }) => type),
    ['directory', 'file', 'symlink'],
  );
});

test('depth lists the directories below, without following links', async (t) => {
  const { workspace, outside } = await makeWorkspace(t, { 'a/b/c/d': '', 'a.txt': '' });
  await put(outside, { 'secret/file': '' });
  await symlink('../secret', join(workspace, 'out'));
  await symlink('.', join(workspace, 'a/loop'));
  const three = await call(listDir, { depth: 3 }, testCall(workspace));
  assert.deepEqual(paths(three), ['a', 'a.txt', 'a/b', 'a/b/c', 'a/loop', 'out']);
  const below = await call(listDir, { path: 'a/b', depth: 9 }, testCall(workspace));
  assert.deepEqual([below.path, paths(below)], ['a/b', ['a/b/c', 'a/b/c/d']]);
});

test('a limit leaves out the deepest entries first and says so', async (t) => {
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`a/${index}`, '']));
  const { workspace } = await makeWorkspace(t, { ...files, 'z.txt': '' });
  const listing = await callShaped(listDir, { depth: 2, limit: 5 }, testCall(workspace));
  assert.deepEqual(paths(listing.data), ['a', 'a/0', 'a/1', 'a/10', 'z.txt']);
  assert.deepEqual([listing.truncated, listing.data.truncated], [true, true]);
  const exact = await call(listDir, { depth: 2, limit: 22 }, testCall(workspace));
  assert.deepEqual([exact.entries.length, exact.truncated], [22, false]);
});

test('names that begin with a dot can be left out', async (t) => {
  const { workspace } = await makeWorkspace(t, { '.env': '', '.github/x': '', a: '' });
  assert.deepEqual(paths(await call(listDir, {}, testCall(workspace))), ['.env', '.github', 'a']);
  assert.deepEqual(paths(await call(listDir, { hidden: false, depth: 2 }, testCall(workspace))), ['a']);
});

test('a missing directory and a file are distinguished, an empty one is empty', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: '' });
  await mkdir(join(workspace, 'empty'));
  assert.deepEqual((await call(listDir, { path: 'empty' }, testCall(workspace))).entries, []);
  await assert.rejects(call(listDir, { path: 'x' }, testCall(workspace)), failsWith('tool_error', 'not_found'));
  await assert.rejects(call(listDir, { path: 'f' }, testCall(workspace)), failsWith('tool_error', 'not_a_directory'));
});

test('a call that was given up stops listing', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: '' });
  const context = testCall(workspace);
  context.cancel();
  await assert.rejects(call(listDir, {}, context), failsWith('cancelled'));
});
