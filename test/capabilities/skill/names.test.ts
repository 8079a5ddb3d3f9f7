/** The digest of a skill identifies one content: ambiguous names of files are refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readSkillFiles } from '../../../src/capabilities/skill/folder/files.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, errorOf, skillHost, writeSkill } from './support.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

test('a line break in a name cannot stand for a further file', async (t) => {
  const site = await skillHost(t);
  const added = 'export default "added";';
  const code = `export default async () => { try { return (await import('./zzz.js')).default; } catch { return 'without'; } };`;
  const folder = writeSkill(site.root, 'pinned', { code });
  const odd = join(folder, `notes.txt\n${sha256(added)}  zzz.js`);
  writeFileSync(odd, 'hello');
  const agent = await agentOf(t, site);
  assert.equal((await errorOf(agent.skill.call('pinned'))).code, 'unknown_skill');
  rmSync(odd);
  writeFileSync(join(folder, 'notes.txt'), 'hello');
  const { digest, data } = await agent.skill.call<string>('pinned');
  assert.equal(data, 'without');
  writeFileSync(join(folder, 'zzz.js'), added);
  assert.equal((await errorOf(agent.skill.call('pinned', {}, { digest }))).code, 'skill.changed');
});

test('names that stand for others, or for no text, are refused', (t) => {
  const names = [
    'a\nb',
    'a\rb',
    'a\tb',
    'a\u001b[2Jb',
    'a\u007fb',
    'a\u0085b',
    'a\u2028b',
    'a\u202eb',
    'a\u200bb',
    'a\ufffdb',
    `deep\n/b`,
  ];
  for (const name of names) {
    const folder = temporaryFolder(t);
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), '');
    assert.throws(() => readSkillFiles(folder), /characters in its name/, JSON.stringify(name));
  }
  if (process.platform !== 'linux') return;
  const folder = temporaryFolder(t);
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/a`), Buffer.from([0xff])]), '');
  assert.throws(() => readSkillFiles(folder), /characters in its name/);
});

test('two names that other file systems take for one are refused', { skip: process.platform !== 'linux' }, (t) => {
  for (const [one, other] of [
    ['notes.txt', 'Notes.txt'],
    ['caf\u00e9.md', 'cafe\u0301.md'],
    ['CAF\u00c9.md', 'cafe\u0301.md'],
    ['\u212a.md', 'k.md'],
  ] as const) {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, one), 'one');
    assert.equal(readSkillFiles(folder).manifest.length, 1);
    writeFileSync(join(folder, other), 'other');
    assert.throws(() => readSkillFiles(folder), /one name on other file systems/, `${one}, ${other}`);
  }
});

test('the digest of a folder with plain names is the one it always had', (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'b ü.txt'), 'two');
  writeFileSync(join(folder, 'a.txt'), 'one');
  const lines = `${sha256('one')}  a.txt\n${sha256('two')}  b ü.txt\n`;
  assert.equal(readSkillFiles(folder).digest, sha256(lines));
});
