import assert from 'node:assert/strict';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { SkillTrust } from '../../../src/base/skills/scan.ts';
import { descriptionOf, previewOf, skillNamesIn } from '../../../src/base/skills/text.ts';
import type { RpcCall } from '../../../src/control/contract/handlers.ts';
import { Skills, skillInstructions } from '../../../src/control/skills/skills.ts';

/** Makes a home, a data directory and a repository with a folder to work in, and the given files below. */
async function setUp(t: TestContext, files: Record<string, string> = {}, trust: SkillTrust = async () => true) {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'handfast-skills-')));
  t.after(() => rm(root, { recursive: true, force: true }));
  const cwd = join(root, 'repository', 'packages', 'one');
  for (const directory of [cwd, join(root, 'repository', '.git'), join(root, 'home'), join(root, 'data')]) {
    await mkdir(directory, { recursive: true });
  }
  const put = async (path: string, text: string): Promise<string> => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
    return join(root, path);
  };
  for (const [path, text] of Object.entries(files)) await put(path, text);
  const places = { cwd, dataDirectory: join(root, 'data'), home: join(root, 'home') };
  const skills = new Skills(places, trust);
  return { root, cwd, put, skills };
}

const listed = async (skills: Skills) =>
  (await skills.handlers()[0]!.handle({}, {} as RpcCall)) as {
    directories: string[];
    errors: string[];
    skills: { name: string; description: string; description_preview: string; source_path: string }[];
  };

test('skills.list answers with names, descriptions, previews and where they are from', async (t) => {
  const { root, skills } = await setUp(t, {
    'repository/.agents/skills/zeta/SKILL.md':
      '# Zeta\n\nDoes **many** `things` in a row, more than eight words of it.\n',
    'repository/packages/one/.agents/skills/alpha/SKILL.md': 'Short.\n',
    'data/skills/group/beta/SKILL.md': '# Only a heading\n',
    'home/.agents/skills/alpha/SKILL.md': '- a list\n- of two\n',
  });
  const answer = await listed(skills);
  assert.deepEqual(answer, {
    directories: [
      join(root, 'repository/.agents/skills'),
      join(root, 'repository/packages/one/.agents/skills'),
      join(root, 'data/skills'),
      join(root, 'home/.agents/skills'),
    ],
    errors: [],
    skills: [
      {
        name: 'alpha',
        description: 'a list of two',
        description_preview: 'a list of two',
        source_path: join(root, 'home/.agents/skills/alpha/SKILL.md'),
      },
      {
        name: 'alpha',
        description: 'Short.',
        description_preview: 'Short.',
        source_path: join(root, 'repository/packages/one/.agents/skills/alpha/SKILL.md'),
      },
      {
        name: 'beta',
        description: 'no description provided',
        description_preview: 'no description provided',
        source_path: join(root, 'data/skills/group/beta/SKILL.md'),
      },
      {
        name: 'zeta',
        description: 'Does many things in a row, more than eight words of it.',
        description_preview: 'Does many things in a row, more than...',
        source_path: join(root, 'repository/.agents/skills/zeta/SKILL.md'),
      },
    ],
  });
  assert.deepEqual(skills.summary, { count: 4, directories: answer.directories });
});

test('the data and home directories are named even when they are not there; those of a project only when they are', async (t) => {
  const { root, skills } = await setUp(t);
  assert.deepEqual(await listed(skills), {
    directories: [join(root, 'data/skills'), join(root, 'home/.agents/skills')],
    errors: [],
    skills: [],
  });
});

test('skills of a project are used only as far as they are trusted; those of the user need no trust', async (t) => {
  const asked: string[] = [];
  const files = {
    'repository/.agents/skills/zeta/SKILL.md': 'foreign',
    'repository/.agents/skills/good/SKILL.md': 'trusted',
    'data/skills/beta/SKILL.md': 'own',
    'home/.agents/skills/alpha/SKILL.md': 'own',
  };
  const { root, skills, cwd } = await setUp(t, files, async (path, bytes) => {
    asked.push(path.slice(root.length));
    return Buffer.from(bytes).toString() === 'trusted';
  });
  const answer = await listed(skills);
  assert.deepEqual(
    answer.skills.map(({ name }) => name),
    ['alpha', 'beta', 'good'],
  );
  assert.deepEqual(asked, ['/repository/.agents/skills/good/SKILL.md', '/repository/.agents/skills/zeta/SKILL.md']);
  assert.match(answer.errors.join(), /zeta\/SKILL\.md: is not trusted; .*handfast trust add/);
  assert.deepEqual(await skills.skillsFor('do it with $zeta', cwd), []);
});

test('outside a repository only the working directory itself is looked at', async (t) => {
  const { root, cwd, skills } = await setUp(t, { 'repository/.agents/skills/outer/SKILL.md': 'x' });
  await rm(join(root, 'repository', '.git'), { recursive: true });
  await mkdir(join(cwd, '.agents', 'skills', 'inner'), { recursive: true });
  await writeFile(join(cwd, '.agents', 'skills', 'inner', 'SKILL.md'), 'y');
  assert.deepEqual(
    (await listed(skills)).skills.map(({ name }) => name),
    ['inner'],
  );
});

test('empty, unreadable and too large skills are errors and hide no other', async (t) => {
  const { root, skills } = await setUp(t, {
    'data/skills/empty/SKILL.md': ' \n',
    'data/skills/large/SKILL.md': 'x'.repeat(300 * 1024),
    'data/skills/good/SKILL.md': 'fine',
    'data/skills/folder/SKILL.md/inner.txt': 'x',
  });
  await mkdir(join(root, 'data/skills/dangling'));
  await symlink(join(root, 'nowhere'), join(root, 'data/skills/dangling/SKILL.md'));
  const answer = await listed(skills);
  assert.deepEqual(
    answer.skills.map(({ name }) => name),
    ['good'],
  );
  assert.deepEqual(answer.errors.map((line) => line.slice(join(root, 'data/skills/').length)).sort(), [
    'dangling/SKILL.md: leads nowhere',
    'empty/SKILL.md: is empty',
    'folder/SKILL.md: is not a file',
    'large/SKILL.md: is larger than 262144 bytes',
  ]);
});

test('links are followed, loops end, a file reached twice counts once, dot directories do not', async (t) => {
  const { root, skills } = await setUp(t, {
    'elsewhere/linked/SKILL.md': 'from elsewhere',
    'data/skills/.hidden/secret/SKILL.md': 'hidden',
    'data/skills/own/SKILL.md': 'own',
  });
  await symlink(join(root, 'elsewhere/linked'), join(root, 'data/skills/linked'));
  await symlink(join(root, 'data/skills'), join(root, 'data/skills/own/loop'));
  await mkdir(join(root, 'home/.agents'), { recursive: true });
  await symlink(join(root, 'data/skills'), join(root, 'home/.agents/skills'));
  const answer = await listed(skills);
  assert.deepEqual(
    answer.skills.map(({ name, source_path }) => [name, source_path.slice(root.length)]),
    [
      ['linked', '/data/skills/linked/SKILL.md'],
      ['own', '/data/skills/own/SKILL.md'],
    ],
  );
});

test('six levels below a root are looked at, and no more than 2,000 directories', async (t) => {
  const { root, put, skills } = await setUp(t, {
    'data/skills/1/2/3/4/5/6/SKILL.md': 'deep',
    'data/skills/1/2/3/4/5/6/7/SKILL.md': 'too deep',
  });
  assert.deepEqual(
    (await listed(skills)).skills.map(({ name }) => name),
    ['6'],
  );
  for (let at = 0; at < 2001; at += 1) await mkdir(join(root, `home/.agents/skills/d${at}`), { recursive: true });
  await put('home/.agents/skills/a/SKILL.md', 'first');
  const { errors, skills: found } = await listed(skills);
  assert.deepEqual(errors, [
    `${join(root, 'home/.agents/skills')}: more than 2000 directories; the rest is not searched`,
  ]);
  assert.ok(found.some(({ name }) => name === 'a'));
});

test('descriptions come from the front matter or the first prose', () => {
  assert.equal(descriptionOf('---\nname: x\ndescription: What it does\n---\n# Title\nbody'), 'What it does');
  assert.equal(descriptionOf('---\ndescription: "in: quotes"\n---\n'), 'in: quotes');
  assert.equal(descriptionOf('---\ndescription: >\n  over two\n  lines\nname: x\n---\n'), 'over two lines');
  assert.equal(descriptionOf('---\nname: x\n---\n\nThe body.\n'), 'The body.');
  assert.equal(
    descriptionOf('```\ncode\n```\n\n# Title\n\nfirst line\nsecond *line*\n\nnext'),
    'first line second *line*',
  );
  assert.equal(descriptionOf('# Title\nright below'), 'right below');
  assert.equal(descriptionOf('1. one\n2) two'), 'one two');
  assert.equal(descriptionOf('# A\n## B\n```\nx\n```'), 'no description provided');
  assert.equal(descriptionOf('\ufeffWith a mark'), 'With a mark');
  assert.equal(previewOf('one two three four five six seven eight'), 'one two three four five six seven eight');
  assert.equal(previewOf('one two three four five six seven eight nine'), 'one two three four five six seven eight...');
});

test('a prompt names skills with a dollar sign', () => {
  assert.deepEqual(skillNamesIn('use $Review and $git.commit-all, then $review!'), ['review', 'git.commit-all']);
  assert.deepEqual(skillNamesIn('it costs $5 or $1000, $ nothing, $-x, $_y'), []);
  assert.deepEqual(skillNamesIn('$a:b. ($c_d): $3d-print'), ['a:b', 'c_d', '3d-print']);
});

test('the skills of a prompt are found by name in any case; a name of several skills matches none', async (t) => {
  const { cwd, skills } = await setUp(t, {
    'repository/.agents/skills/Review/SKILL.md': '---\ndescription: x\n---\n\nLook twice.\n',
    'repository/.agents/skills/twin/SKILL.md': 'one',
    'data/skills/twin/SKILL.md': 'two',
    'data/skills/other/SKILL.md': 'The other.',
  });
  const named = await skills.skillsFor('please $other and $REVIEW and $twin and $missing', cwd);
  assert.deepEqual(
    named.map(({ name, body }) => [name, body]),
    [
      ['other', 'The other.'],
      ['Review', 'Look twice.'],
    ],
  );
  assert.equal(skillInstructions(named), '# Skill: other\n\nThe other.\n\n# Skill: Review\n\nLook twice.');
  assert.deepEqual(await skills.skillsFor('nothing here', cwd), []);
  assert.equal(skillInstructions([]), '');
});

test('a session in another directory sees the skills of its own project', async (t) => {
  const { root, cwd, skills } = await setUp(t, { 'repository/.agents/skills/here/SKILL.md': 'here' });
  const elsewhere = join(root, 'elsewhere');
  await mkdir(join(elsewhere, '.agents/skills/there'), { recursive: true });
  await writeFile(join(elsewhere, '.agents/skills/there/SKILL.md'), 'there');
  const names = async (directory: string) =>
    (await skills.skillsFor('$here $there', directory)).map(({ name }) => name);
  assert.deepEqual(await names(cwd), ['here']);
  assert.deepEqual(await names(elsewhere), ['there']);
});
