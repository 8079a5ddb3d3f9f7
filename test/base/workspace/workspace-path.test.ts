import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readdir, readFile as readReal, rename, symlink, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Addressing } from '../../../src/base/workspace/held-directory.ts';
import { holdDirectory, locate, openFile } from '../../../src/base/workspace/workspace-path.ts';
import { replaceFile } from '../../../src/capabilities/tools/builtin/atomic-write.ts';
import {
  editFile,
  glob,
  grep,
  listDir,
  readFile,
  writeFile as writeTool,
} from '../../../src/capabilities/tools/builtin/index.ts';
import { call, failsWith, makeWorkspace, put, testCall } from '../../capabilities/tools/builtin/support.ts';

const addressings: readonly Addressing[] = process.platform === 'linux' ? ['descriptor', 'path'] : ['path'];

async function readThrough(workspace: string, path: string, addressing: Addressing): Promise<string> {
  await using place = await locate(workspace, path, { addressing });
  const { handle } = await openFile(place);
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

for (const addressing of addressings) {
  test(`(${addressing}) paths inside are found, however they are spelled`, async (t) => {
    const { workspace } = await makeWorkspace(t, { 'a/b/file.txt': 'x' });
    for (const path of ['a/b/file.txt', './a//b/./file.txt', 'a/../a/b/file.txt', `${workspace}/a/b/file.txt`]) {
      assert.equal(await readThrough(workspace, path, addressing), 'x', path);
    }
    for (const [path, expected] of [
      ['.', '.'],
      ['a/..', '.'],
      [workspace, '.'],
      ['a/b/', 'a/b'],
      ['a/b/..', 'a'],
    ] as const) {
      const held = await holdDirectory(workspace, path, { addressing });
      await held.directory.close();
      assert.equal(held.path, expected, path);
    }
  });

  test(`(${addressing}) paths and links that lead outside are denied`, async (t) => {
    const { workspace, outside } = await makeWorkspace(t, { 'a/file.txt': 'x' });
    await put(outside, { 'secret.txt': 'secret', 'workspace-2/file.txt': 'secret' });
    await symlink('../secret.txt', join(workspace, 'relative'));
    await symlink(join(outside, 'secret.txt'), join(workspace, 'absolute'));
    await symlink(outside, join(workspace, 'up'));
    await symlink('a/../../secret.txt', join(workspace, 'winding'));
    for (const path of [
      '..',
      '../secret.txt',
      'a/../../secret.txt',
      '../workspace/a/file.txt',
      '/etc/passwd',
      '/',
      `${workspace}/../secret.txt`,
      `${workspace}-2/file.txt`,
      'relative',
      'absolute',
      'up/secret.txt',
      'up/workspace/a/file.txt',
      'winding',
    ]) {
      await assert.rejects(
        readThrough(workspace, path, addressing),
        failsWith('tool_denied', 'outside_workspace'),
        path,
      );
    }
  });

  test(`(${addressing}) links inside are followed, by relative and absolute targets`, async (t) => {
    const { workspace } = await makeWorkspace(t, { 'a/file.txt': 'x' });
    await symlink('a', join(workspace, 'to-directory'));
    await symlink(join(workspace, 'a/file.txt'), join(workspace, 'to-file'));
    await symlink('../to-file', join(workspace, 'a/to-link'));
    for (const path of ['to-directory/file.txt', 'to-file', 'a/to-link', 'to-directory/../to-file']) {
      await using place = await locate(workspace, path, { addressing });
      assert.equal(place.path, 'a/file.txt', path);
    }
  });

  test(`(${addressing}) an absolute path through a link outside leads into the workspace, and no further`, async (t) => {
    const { workspace, outside } = await makeWorkspace(t, { 'a/file.txt': 'x' });
    await put(outside, { 'secret.txt': 'secret' });
    await symlink(workspace, join(outside, 'other-name'));
    await symlink(join(workspace, 'a'), join(outside, 'folder-in-it'));
    await symlink(join(outside, 'other-name', 'a'), join(workspace, 'by-other-name'));
    for (const path of [
      join(outside, 'other-name/a/file.txt'),
      join(outside, 'folder-in-it/file.txt'),
      'by-other-name/file.txt',
    ]) {
      await using place = await locate(workspace, path, { addressing });
      assert.equal(place.path, 'a/file.txt', path);
    }
    await using top = await locate(workspace, `${join(outside, 'other-name')}/`, { addressing });
    assert.equal(top.path, '.');
    for (const path of ['other-name/../secret.txt', 'folder-in-it/../../secret.txt', 'secret.txt', 'none/a/file.txt']) {
      const reached = `${outside}/${path}`;
      await assert.rejects(locate(workspace, reached, { addressing }), failsWith('tool_denied', 'outside_workspace'));
    }
  });

  test(`(${addressing}) whether something exists outside cannot be found out`, async (t) => {
    const { workspace, outside } = await makeWorkspace(t);
    await symlink(join(outside, 'not-there'), join(workspace, 'dangling'));
    await symlink('../not-there/deeper', join(workspace, 'dangling-too'));
    for (const path of ['../not-there', 'dangling', 'dangling-too', join(outside, 'not-there')]) {
      const denied = failsWith('tool_denied', 'outside_workspace');
      await assert.rejects(locate(workspace, path, { addressing }), denied, path);
      await assert.rejects(locate(workspace, path, { addressing, createDirectories: true }), denied, path);
    }
    const back = locate(workspace, 'new/../../not-there', { addressing, createDirectories: true });
    await assert.rejects(back, failsWith('tool_error', 'not_found'));
    assert.deepEqual(await readdir(outside), ['workspace']);
    assert.deepEqual((await readdir(workspace)).sort(), ['dangling', 'dangling-too']);
  });

  test(`(${addressing}) loops of links, NUL characters and files used as directories are refused`, async (t) => {
    const { workspace } = await makeWorkspace(t, { file: 'x' });
    await symlink('two', join(workspace, 'one'));
    await symlink('one', join(workspace, 'two'));
    const reasons = {
      one: 'too_many_links',
      'a\0b': 'bad_path',
      'file/x': 'not_a_directory',
      'file/': 'not_a_directory',
    };
    for (const [path, reason] of Object.entries(reasons)) {
      await assert.rejects(locate(workspace, path, { addressing }), failsWith('tool_error', reason), path);
    }
  });

  test(`(${addressing}) a directory exchanged for a link after it was found is not followed`, async (t) => {
    const { workspace, outside } = await makeWorkspace(t, { 'door/file.txt': 'inside' });
    await put(outside, { 'trap/file.txt': 'outside' });
    await using place = await locate(workspace, 'door/file.txt', { addressing });
    await rename(join(workspace, 'door'), join(workspace, 'aside'));
    await symlink(join(outside, 'trap'), join(workspace, 'door'));
    const opening = openFile(place).then(async ({ handle }) => {
      await using file = handle;
      return file.readFile('utf8');
    });
    // Held by its descriptor the directory is still the one that was found; by its path it is lost.
    if (addressing === 'descriptor') assert.equal(await opening, 'inside');
    else await assert.rejects(opening, failsWith('tool_denied', 'outside_workspace'));
    const { signal } = testCall(workspace);
    const writing = replaceFile(place, Buffer.from('new'), { expect: 'anything', signal });
    if (addressing === 'descriptor') {
      assert.equal(await writing, true);
      assert.equal(await readReal(join(workspace, 'aside/file.txt'), 'utf8'), 'new');
    } else await assert.rejects(writing, failsWith('tool_denied', 'outside_workspace'));
    assert.equal(await readReal(join(outside, 'trap/file.txt'), 'utf8'), 'outside');
    assert.deepEqual(await readdir(join(outside, 'trap')), ['file.txt']);
  });
}

/** Starts another process that exchanges a directory `door` and a link to the outside as fast as it can. */
async function startFlipping(workspace: string, trap: string): Promise<AsyncDisposable> {
  const flipper = spawn(process.execPath, [
    '-e',
    `const fs = require('node:fs'); process.chdir(${JSON.stringify(workspace)});
     fs.symlinkSync(${JSON.stringify(trap)}, 'lure');
     process.stdout.write('ready');
     process.stdin.on('end', () => process.exit()).resume();
     (function flip() {
       for (let i = 0; i < 200; i += 1) {
         fs.renameSync('door', 'aside'); fs.renameSync('lure', 'door');
         fs.renameSync('door', 'lure'); fs.renameSync('aside', 'door');
       }
       setImmediate(flip);
     })();`,
  ]);
  const exited = once(flipper, 'exit');
  await once(flipper.stdout, 'data');
  return {
    async [Symbol.asyncDispose]() {
      flipper.stdin.end();
      await exited;
    },
  };
}

test('reading through a directory that another process exchanges all the time never shows the outside', {
  skip: !addressings.includes('descriptor'),
}, async (t) => {
  const { workspace, outside } = await makeWorkspace(t, { 'door/file.txt': 'inside' });
  await put(outside, { 'trap/file.txt': 'outside' });
  await using _ = await startFlipping(workspace, join(outside, 'trap'));
  const seen = { inside: 0, refused: 0 };
  const until = performance.now() + 700;
  const late = until + 60_000;
  const unseen = () => seen.inside === 0 || seen.refused === 0;
  while (performance.now() < until || (unseen() && performance.now() < late)) {
    const text = await readThrough(workspace, 'door/file.txt', 'descriptor').catch(() => undefined);
    if (text === undefined) seen.refused += 1;
    else {
      assert.equal(text, 'inside');
      seen.inside += 1;
    }
  }
  assert.ok(seen.inside > 0, 'the door was never open');
  assert.ok(seen.refused > 0, 'the door was never a trap');
});

test('writes into a directory that is being exchanged never land outside', async (t) => {
  const { workspace, outside } = await makeWorkspace(t, { 'door/file.txt': 'inside' });
  await put(outside, { 'trap/file.txt': 'outside' });
  await symlink(join(outside, 'trap'), join(workspace, 'lure'));
  const context = testCall(workspace);
  let stop = false;
  const flip = (async () => {
    while (!stop) {
      await rename(join(workspace, 'door'), join(workspace, 'aside'));
      await rename(join(workspace, 'lure'), join(workspace, 'door'));
      await rename(join(workspace, 'door'), join(workspace, 'lure'));
      await rename(join(workspace, 'aside'), join(workspace, 'door'));
      // The directory stays for a while, or nothing would ever be written.
      await delay(2);
    }
  })();
  let written = 0;
  let refused = 0;
  const until = performance.now() + 60_000;
  while ((written < 20 || refused < 20) && performance.now() < until) {
    try {
      await call(writeTool, { path: 'door/file.txt', content: `round ${written}` }, context);
      written += 1;
    } catch {
      refused += 1;
    }
  }
  stop = true;
  await flip;
  assert.equal(await readReal(join(outside, 'trap/file.txt'), 'utf8'), 'outside');
  assert.deepEqual(await readdir(join(outside, 'trap')), ['file.txt']);
  assert.ok(written > 0 && refused > 0, `${written} written, ${refused} refused`);
});

test('no tool lists, reads or writes outside, and no error tells where the workspace is', async (t) => {
  const { workspace, outside } = await makeWorkspace(t);
  await put(outside, { 'secret/secret.txt': 'secret' });
  await symlink('../secret', join(workspace, 'link'));
  const context = testCall(workspace);
  const denied = failsWith('tool_denied', 'outside_workspace', outside);
  for (const path of ['../secret', 'link', 'link/secret.txt']) {
    await assert.rejects(call(readFile, { path }, context), denied, path);
    await assert.rejects(
      call(writeTool, { path: `${path}/new`, content: '', create_dirs: true }, context),
      denied,
      path,
    );
    await assert.rejects(call(editFile, { path, edits: [{ old_text: 's', new_text: 't' }] }, context), denied, path);
    await assert.rejects(call(listDir, { path }, context), denied, path);
    await assert.rejects(call(glob, { patterns: ['**'], path }, context), denied, path);
    await assert.rejects(call(grep, { pattern: 'secret', path }, context), denied, path);
  }
  const missing = failsWith('tool_error', 'not_found', outside);
  await assert.rejects(call(readFile, { path: 'not-there' }, context), missing);
  await assert.rejects(call(glob, { patterns: ['**'], path: 'not-there' }, context), missing);
  await assert.rejects(call(grep, { pattern: 'x', path: 'not-there' }, context), missing);
  await assert.rejects(call(writeTool, { path: 'no/such/dir', content: '' }, context), missing);
  assert.deepEqual(await readdir(join(outside, 'secret')), ['secret.txt']);
});

async function makeFifo(t: TestContext, workspace: string): Promise<boolean> {
  const maker = spawn('mkfifo', [join(workspace, 'fifo')], { stdio: 'ignore' });
  const [code] = await Promise.race([once(maker, 'exit'), once(maker, 'error').then(() => [1])]);
  if (code !== 0) t.skip('mkfifo is not there');
  return code === 0;
}

test('a FIFO is refused at once by every tool', { timeout: 120_000 }, async (t) => {
  const { workspace } = await makeWorkspace(t);
  if (!(await makeFifo(t, workspace))) return;
  const context = testCall(workspace);
  const refused = failsWith('tool_error', 'not_a_regular_file');
  await assert.rejects(call(readFile, { path: 'fifo' }, context), refused);
  await assert.rejects(call(writeTool, { path: 'fifo', content: 'x' }, context), refused);
  await assert.rejects(call(editFile, { path: 'fifo', edits: [{ old_text: 'a', new_text: 'b' }] }, context), refused);
  await assert.rejects(call(grep, { pattern: 'x', path: 'fifo' }, context), refused);
  assert.deepEqual((await call(grep, { pattern: 'x' }, context)).files, []);
  const { entries } = await call(listDir, {}, context);
  assert.equal(entries[0].type, 'other');
});

test('a regular file exchanged for a FIFO after it was found is not waited for', { timeout: 120_000 }, async (t) => {
  const { workspace } = await makeWorkspace(t, { file: 'x' });
  if (!(await makeFifo(t, workspace))) return;
  await using place = await locate(workspace, 'file');
  await unlink(join(workspace, 'file'));
  await rename(join(workspace, 'fifo'), join(workspace, 'file'));
  await assert.rejects(openFile(place), failsWith('tool_error', 'not_a_regular_file'));
});

test('what may not be read is reported as such', {
  skip: process.getuid?.() === 0 && 'root may read everything',
}, async (t) => {
  const { workspace } = await makeWorkspace(t, { file: 'x' });
  await chmod(join(workspace, 'file'), 0);
  await assert.rejects(
    call(readFile, { path: 'file' }, testCall(workspace)),
    failsWith('tool_error', 'permission_denied'),
  );
});

test('a missing workspace is reported without its path', async (t) => {
  const { outside } = await makeWorkspace(t);
  const context = testCall(join(outside, 'gone'));
  await assert.rejects(call(readFile, { path: 'x' }, context), failsWith('tool_error', 'workspace_missing', outside));
});
