/**
 * The list behind `@file`: files that `.gitignore` leaves out, and its bounds on huge folders.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { ProjectFiles } from '../../src/cli/chat/screen/project-files.ts';

const folders: string[] = [];

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-files-'));
  folders.push(folder);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

test('what git ignores is left out, at every depth, and nearer files come first', async () => {
  const folder = folderWith({
    '.gitignore': 'dist/\n*.log\n',
    'dist/made.js': '',
    'a.log': '',
    '.git/config': '',
    'src/.gitignore': 'secret.txt\n!kept.log\n',
    'src/secret.txt': '',
    'src/kept.log': '',
    'src/deep/b.ts': '',
    'z.md': '',
  });
  assert.deepEqual(
    [...(await new ProjectFiles(folder).paths())].sort(),
    ['.gitignore', 'src/', 'src/.gitignore', 'src/deep/', 'src/deep/b.ts', 'src/kept.log', 'z.md'].sort(),
  );
});

test('the list ends at its number of paths and at its time, and is used again while it is fresh', async () => {
  const folder = folderWith(Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`d${at}/f${at}`, ''])));
  assert.equal((await new ProjectFiles(folder, { maxPaths: 10 }).paths()).length, 10);
  let now = 0;
  const files = new ProjectFiles(folder, { maxMs: 5, freshMs: 100, now: () => now++ });
  const paths = await files.paths();
  assert.ok(paths.length >= 30 && paths.length < 60, 'the top was read, and not everything below');
  assert.equal(files.paths(), files.paths());
  now += 1000;
  assert.notEqual(await files.paths(), paths);
  assert.deepEqual(await new ProjectFiles(join(folder, 'none')).paths(), []);
});
