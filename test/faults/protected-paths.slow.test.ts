/**
 * The holder of a restricted token and the files of the server: configuration, tokens, data, journals, audit, and the
 * code it loads. All of it is in the workspace, where the tools of that token work.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { canCover } from '../../src/base/workspace/path-cover.ts';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import * as control from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const SECRET = 'token-of-another-principal-0002';
const RESTRICTED = 'token-of-the-restricted-one-0001';
const CLIENT = 'token-of-a-client-of-sessions-0004';
const ADMIN = 'token-of-an-administrator-0003';

const CONFIG = `
listen: tcp://127.0.0.1:0
journal: { kind: sqlite, file: ./log/journal.db }
audit: { file: ./log/audit.jsonl }
plugins: [tools, { use: skill, options: { roots: [./skills] } }, ./extra/plugin.mjs]
control: { data_dir: ./data }
auth:
  tokens:
    - { name: restricted, token_file: ./mine.token, capabilities: [tools, skill], tools: { risks: [exec, destructive, network] } }
    - { name: client, token: ${CLIENT}, roles: [client] }
    - { name: other, token_file: ./secrets/other.token }
    - { name: boss, token_file: ./boss.token, admin: true }
`;

/** Files that may be read and not changed: code. */
const READABLE = 'extra/plugin.mjs';
const SKILL = 'skills/writes/main.js';

async function scene(t: TestContext) {
  const folder = temporaryFolder(t);
  const home = join(folder, 'home');
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  put('handfast.yaml', CONFIG);
  put('mine.token', `${RESTRICTED}\n`);
  put('secrets/other.token', `${SECRET}\n`);
  put('boss.token', `${ADMIN}\n`);
  put('src/note.txt', 'an ordinary file\n');
  put(
    READABLE,
    `import { tool, toolsPlugin } from 'handfast';
     export const plugin = toolsPlugin({ name: 'extra', tools: [tool({ name: 'extra', description: 'x', run: () => 1 })] });`,
  );
  put(
    'skills/writes/SKILL.md',
    '---\nname: writes\ndescription: x\nentry: main.js\nallowed-tools: write_file\n---\nWrites.\n',
  );
  put(SKILL, `export default (args, skill) => skill.tool('write_file', args).catch(({ code }) => code);`);
  const config = await loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: home } });
  const server = await serve(config, { announce: false });
  t.after(() => server.close(0));
  const open = async (token: string) => {
    const agent = await connect(server.url as string, { capabilities: ['tools'], token });
    t.after(() => agent.close());
    const call = (name: string, args: Record<string, unknown>) => agent.tools.call(name, args);
    return {
      call,
      /** Resolves with the reason of the refusal; `ok` for a completed call. */
      tried: (name: string, args: Record<string, unknown>): Promise<string> =>
        call(name, args).then(
          () => 'ok',
          ({ code, detail }: HandfastError) => (detail.reason === undefined ? code : `${code} ${detail.reason}`),
        ),
    };
  };
  return { folder, home, put, server, agent: await open(RESTRICTED), boss: await open(ADMIN), open };
}

const DENIED = 'tool_denied protected_path';

/** Returns every way in which a file tool reads a path. */
const readers = (path: string): [string, Record<string, unknown>][] => [
  ['read_file', { path }],
  ['read_file', { path, encoding: 'base64' }],
  ['grep', { pattern: '.', path }],
];
const writers = (path: string): [string, Record<string, unknown>][] => [
  ['write_file', { path, content: 'taken over' }],
  ['write_file', { path, content: 'taken over', create_dirs: true, overwrite: false }],
  ['write_file', { path, content: 'x', expected_sha256: '0'.repeat(64) }],
  ['edit_file', { path, edits: [{ old_text: 'token', new_text: 'taken over' }] }],
];
const folderReaders = (path: string): [string, Record<string, unknown>][] => [
  ['list_dir', { path }],
  ['glob', { patterns: ['**'], path }],
  ['grep', { pattern: '.', path }],
  ['shell', { command: 'true', cwd: path }],
];

test('F-93: a restricted token reads and changes no configuration, token, data, journal or audit', async (t) => {
  const { folder, agent, boss, home } = await scene(t);
  const files = [
    'handfast.yaml',
    'mine.token',
    'secrets/other.token',
    'boss.token',
    'log/journal.db',
    'log/journal.db-wal',
    'log/audit.jsonl',
    'data/sessions.db',
    'data/sessions.journal.db',
    // Paths that do not exist yet.
    'log/audit.jsonl.1',
    'log/audit-2.jsonl',
    'log/journal.db.lock-journal',
    'data/credentials.json',
    'data/deeper/credentials.json',
    'home/token',
    'home/hosts/handfast/state.db',
    // Other spellings.
    './src/../handfast.yaml',
    join(folder, 'handfast.yaml'),
    'log//audit.jsonl',
  ];
  await agent.call('read_file', { path: 'src/note.txt' });
  for (const path of files) {
    for (const [name, args] of [...readers(path), ...writers(path)]) {
      assert.equal(await agent.tried(name, args), DENIED, `${name} ${JSON.stringify(args)}`);
    }
  }
  for (const path of ['data', 'home', 'data/', 'home/hosts']) {
    for (const [name, args] of folderReaders(path))
      assert.equal(await agent.tried(name, args), DENIED, `${name} ${path}`);
  }
  assert.equal(readFileSync(join(folder, 'handfast.yaml'), 'utf8'), CONFIG);
  assert.equal(readFileSync(join(folder, 'secrets/other.token'), 'utf8').trim(), SECRET);
  // Names that differ in case only are the same file on some systems, and never created here.
  assert.equal(await agent.tried('write_file', { path: 'HANDFAST.yaml', content: 'x' }), DENIED);
  assert.equal(await agent.tried('write_file', { path: 'src/HANDFA\u017fT.yaml', content: 'x' }), DENIED);
  assert.equal(await agent.tried('write_file', { path: 'log/AUDIT.jsonl.2', content: 'x' }), DENIED);

  // An administrator may use protected files, and every principal unprotected ones.
  assert.equal(await boss.tried('read_file', { path: 'handfast.yaml' }), 'ok');
  assert.equal(await boss.tried('list_dir', { path: 'data' }), 'ok');
  assert.equal(await agent.tried('write_file', { path: 'src/new.txt', content: 'x' }), 'ok');
  assert.equal(await agent.tried('write_file', { path: 'log/other.txt', content: 'x' }), 'ok');
  assert.ok(home.startsWith(folder));
});

test('F-93: searches of the whole workspace pass over what is protected', async (t) => {
  const { folder, agent } = await scene(t);
  linkSync(join(folder, 'secrets/other.token'), join(folder, 'src/linked.txt'));
  linkSync(join(folder, 'secrets/other.token'), join(folder, 'src/.gitignore'));
  const found = await agent.call('grep', { pattern: 'token-of|restricted|ordinary', gitignore: false });
  const { files } = found.data as { files: { path: string }[] };
  assert.deepEqual(
    files.map(({ path }) => path),
    ['src/note.txt'],
  );
  const { paths } = (await agent.call('glob', { patterns: ['**'], gitignore: false })).data as { paths: string[] };
  assert.deepEqual(
    paths.filter((path) => /^(?:data|home)\//.test(path)),
    [],
  );
  const { entries } = (await agent.call('list_dir', { depth: 8 })).data as { entries: { path: string }[] };
  assert.deepEqual(
    entries.map(({ path }) => path).filter((path) => /^(?:data|home)\//.test(path)),
    [],
  );
});

test('F-93: links to protected files, symbolic and hard, are refused, whenever they were made', async (t) => {
  const { folder, home, agent, put } = await scene(t);
  const at = (path: string) => join(folder, path);
  symlinkSync('../handfast.yaml', at('src/config'));
  symlinkSync(at('secrets/other.token'), at('src/absolute'));
  symlinkSync('config', at('src/twice'));
  symlinkSync('../data', at('src/folder'));
  symlinkSync(home, at('src/home'));
  for (const path of ['src/config', 'src/absolute', 'src/twice', 'src/folder/sessions.db', 'src/home/token']) {
    for (const [name, args] of [...readers(path), ...writers(path)]) {
      assert.equal(await agent.tried(name, args), DENIED, `${name} ${path}`);
    }
  }
  linkSync(at('handfast.yaml'), at('src/hard-config'));
  linkSync(join(home, 'token'), at('src/hard-token'));
  linkSync(at('log/audit.jsonl'), at('src/hard-audit'));
  // Made after the server, and after the link: a secret it stores later.
  put('data/credentials.json', `{"key":"${SECRET}"}`);
  linkSync(at('data/credentials.json'), at('src/hard-later'));
  for (const path of ['src/hard-config', 'src/hard-token', 'src/hard-audit', 'src/hard-later']) {
    for (const [name, args] of [...readers(path), ...writers(path)]) {
      const outcome = await agent.tried(name, args);
      // A single file that a search may not open is passed over.
      assert.ok(outcome === DENIED, `${name} ${path}: ${outcome}`);
    }
  }
  // Other files may have several links.
  linkSync(at('src/note.txt'), at('src/also-a-note.txt'));
  assert.equal(await agent.tried('read_file', { path: 'src/also-a-note.txt' }), 'ok');
});

test('F-93: renames do not help: not of the file, nor of a folder above it, nor the name that is free then', async (t) => {
  const { folder, agent } = await scene(t);
  const at = (path: string) => join(folder, path);
  await agent.call('read_file', { path: 'src/note.txt' });
  renameSync(at('handfast.yaml'), at('src/moved.txt'));
  renameSync(at('secrets'), at('elsewhere'));
  renameSync(at('data'), at('src/data2'));
  for (const path of ['src/moved.txt', 'elsewhere/other.token', 'src/data2/sessions.db', 'src/data2/new.json']) {
    assert.equal(await agent.tried('read_file', { path }), DENIED, path);
    assert.equal(await agent.tried('grep', { path, pattern: '.' }), DENIED, path);
    assert.equal(await agent.tried('write_file', { path, content: 'x' }), DENIED, path);
  }
  const { files } = (await agent.call('grep', { pattern: 'token|key', gitignore: false })).data as { files: object[] };
  assert.deepEqual(files, []);
  for (const path of ['handfast.yaml', 'secrets/other.token', 'secrets/x', 'data/credentials.json', 'data/x/y']) {
    assert.equal(await agent.tried('write_file', { path, content: 'x', create_dirs: true }), DENIED, path);
  }
  // A link in the place of a folder, to where nothing is: nothing is planted there.
  rmSync(at('src/data2'), { recursive: true });
  symlinkSync('src/store/new', at('data'));
  for (const path of ['data/settings.json', 'src/store/new/settings.json', 'src/store/x']) {
    assert.equal(await agent.tried('write_file', { path, content: 'x', create_dirs: true }), DENIED, path);
  }
  // Inodes of removed files are reused by other files, which are no secrets.
  rmSync(at('src/moved.txt'));
  for (let index = 0; index < 20; index += 1) {
    writeFileSync(at(`src/again-${index}.txt`), `${index}`);
    assert.equal(await agent.tried('read_file', { path: `src/again-${index}.txt` }), 'ok');
  }
});

test('F-93: what decides rights or runs can be read, and not changed', async (t) => {
  const { agent, put, folder, server } = await scene(t);
  await using asking = await connect(server.url as string, { capabilities: ['skill'], token: RESTRICTED });
  const skills = asking.skill;
  put('src/.git/config', '[core]\n');
  put('src/.git/hooks/pre-commit.sample', '#!/bin/sh\n');
  for (const path of [
    READABLE,
    SKILL,
    'skills/writes/SKILL.md',
    'src/.git/config',
    'src/.git/hooks/pre-commit.sample',
  ]) {
    assert.equal(await agent.tried('read_file', { path }), 'ok', path);
    for (const [name, args] of writers(path)) assert.equal(await agent.tried(name, args), DENIED, `${name} ${path}`);
  }
  for (const path of [
    'src/.git/hooks/pre-commit',
    'src/.GIT/hooks/pre-commit',
    'sub/.git/hooks/pre-push',
    '.git',
    'sub/handfast.yaml',
    'sub/new/fleet.yaml',
    'skills/new/SKILL.md',
    'skills/writes/more.js',
  ]) {
    assert.equal(await agent.tried('write_file', { path, content: 'x', create_dirs: true }), DENIED, path);
  }
  assert.match(readFileSync(join(folder, READABLE), 'utf8'), /toolsPlugin/);
  // Nor by way of a skill, which calls tools as its caller.
  const { data } = await skills.call('writes', { path: SKILL, content: 'taken over' });
  assert.equal(data, 'tool_denied');
  assert.match(readFileSync(join(folder, SKILL), 'utf8'), /export default/);
  // The folder of some user: secrets, not only of this server's.
  put('sub/.handfast/token', SECRET);
  for (const [name, args] of [...readers('sub/.handfast/token'), ...writers('sub/.handfast/new')]) {
    assert.equal(await agent.tried(name, args), DENIED, name);
  }
});

test('F-93: the processes of the machine are protected where the workspace holds them', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'mine.token'), RESTRICTED);
  writeFileSync(
    join(folder, 'handfast.yaml'),
    `workspace: /\nlisten: tcp://127.0.0.1:0\nauth: { tokens: [{ name: ci, token_file: mine.token, capabilities: [tools] }] }\n`,
  );
  const env = { HANDFAST_HOME: join(folder, 'home') };
  await using server = await serve(await loadConfig('handfast.yaml', { cwd: folder, env }), { announce: false });
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: RESTRICTED });
  for (const path of ['/proc/self/environ', 'proc/thread-self/environ', `/proc/self/root${folder}/mine.token`]) {
    for (const [name, args] of readers(path)) {
      await assert.rejects(agent.tools.call(name, args), ({ code, detail }: HandfastError) => {
        assert.deepEqual([code, detail.reason], ['tool_denied', 'protected_path'], `${name} ${path}`);
        return true;
      });
    }
  }
});

test('F-93: a link that is swapped while it is read never shows the secret', async (t) => {
  const { folder, agent } = await scene(t);
  const door = join(folder, 'src/door');
  const secret = join(folder, 'secrets/other.token');
  const plain = join(folder, 'src/note.txt');
  let swaps = 0;
  let isOver = false;
  const swapping = (async () => {
    while (!isOver) {
      for (const make of [() => linkSync(plain, door), () => linkSync(secret, door), () => symlinkSync(secret, door)]) {
        make();
        swaps += 1;
        await new Promise(setImmediate);
        unlinkSync(door);
      }
    }
  })();
  const outcomes = new Set<string>();
  try {
    for (let round = 0; round < 150; round += 1) {
      const replies = await Promise.all(
        ['read_file', 'read_file'].map((name) =>
          agent.call(name, { path: 'src/door' }).then(
            ({ data }) => JSON.stringify(data),
            ({ code, detail }: HandfastError) => `${code} ${detail.reason}`,
          ),
        ),
      );
      for (const reply of replies) {
        assert.equal(reply.includes(SECRET), false, reply);
        outcomes.add(reply.includes('ordinary') ? 'read' : reply);
      }
    }
  } finally {
    isOver = true;
    await swapping;
  }
  assert.ok(swaps > 100);
  assert.ok(outcomes.has(DENIED), [...outcomes].join());
});

test('F-93: every refusal is a line of the audit, with the tool and the reason', async (t) => {
  const { folder, agent, server } = await scene(t);
  for (const [name, args] of [...readers('handfast.yaml'), ...writers('mine.token')]) await agent.tried(name, args);
  await server.close(0);
  const lines = readFileSync(join(folder, 'log/audit.jsonl'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('tool/call/req'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ principal, tool, outcome, error_code, reason }) => ({ principal, tool, outcome, error_code, reason })),
    ['read_file', 'read_file', 'grep', 'write_file', 'write_file', 'write_file', 'edit_file'].map((tool) => ({
      principal: 'restricted',
      tool,
      outcome: 'error',
      error_code: 'tool_denied',
      reason: 'protected_path',
    })),
  );
});

test('F-93: files with tokens that a reload brings are protected from then on', async (t) => {
  const folder = temporaryFolder(t);
  const read = () => loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const tokens = (list: string) => {
    writeFileSync(join(folder, 'handfast.yaml'), `listen: tcp://127.0.0.1:0\nauth: { tokens: [${list}] }\n`);
  };
  const first = `{ name: first, token: ${RESTRICTED}, capabilities: [tools] }`;
  tokens(first);
  writeFileSync(join(folder, 'later.txt'), SECRET);
  await using server = await serve(await read(), { announce: false, reread: read });
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: RESTRICTED });
  await agent.tools.call('read_file', { path: 'later.txt' });
  tokens(`${first}, { name: second, token_file: later.txt }`);
  await server.reload?.();
  for (const [name, args] of readers('later.txt')) {
    await assert.rejects(agent.tools.call(name, args), { code: 'tool_denied' }, name);
  }
});

test('F-93: a restricted client makes no session in a protected folder, also through a link', async (t) => {
  const { folder, server, home } = await scene(t);
  symlinkSync('../data', join(folder, 'src/door'));
  const url = server.url as string;
  await using client = await control.connect(url, { token: CLIENT });
  for (const cwd of [join(folder, 'data'), home, join(folder, 'src/door'), join(folder, 'src/../data')]) {
    await assert.rejects(client.create({ cwd, backend: 'rehearsal' }), { code: 'unauthorized' }, cwd);
  }
  const { id } = await client.create({ cwd: join(folder, 'src'), backend: 'rehearsal' });
  assert.ok(id.length > 0);
});

const hasBubblewrap = await canCover();

test('F-93: where bubblewrap is installed, programs of restricted principals find protected paths covered', {
  skip: !hasBubblewrap && 'needs bubblewrap',
}, async (t) => {
  const { folder, agent, boss, home } = await scene(t);
  const shell = async (by: typeof agent, command: string) =>
    (await by.call('shell', { command })).data as { exit_code: number; stdout: string; stderr: string };
  const seen = await shell(
    agent,
    `cat handfast.yaml secrets/other.token log/* ${home}/token /proc/${process.pid}/root${folder}/handfast.yaml; ls -A data; cat src/note.txt`,
  );
  assert.equal(seen.stdout, 'an ordinary file\n');
  const moved = await shell(
    agent,
    `mv secrets elsewhere; mv log/audit.jsonl x; rm -rf data; echo x > handfast.yaml; umount handfast.yaml; echo x >> ${READABLE}; echo y > src/made.txt; cat src/made.txt`,
  );
  assert.equal(moved.stdout, 'y\n');
  assert.equal(readFileSync(join(folder, 'handfast.yaml'), 'utf8'), CONFIG);
  assert.equal(readFileSync(join(folder, 'secrets/other.token'), 'utf8').trim(), SECRET);
  assert.doesNotMatch(readFileSync(join(folder, READABLE), 'utf8'), /x$/);
  assert.ok(existsSync(join(folder, 'data/sessions.db')));
  assert.equal((await shell(agent, 'exit 7')).exit_code, 7);
  assert.match((await shell(boss, 'cat handfast.yaml')).stdout, /restricted/);
});

test('programs find no folder .handfast and no hard link to a protected file in the workspace', {
  skip: !hasBubblewrap && 'needs bubblewrap',
}, async (t) => {
  const { folder, agent, put } = await scene(t);
  put('.handfast/state', SECRET);
  put('src/deep/.Handfast/state', SECRET);
  linkSync(join(folder, 'secrets/other.token'), join(folder, 'src/notes.txt'));
  linkSync(join(folder, 'home/token'), join(folder, 'src/deep/other.txt'));
  const cat = async (...paths: string[]): Promise<string> => {
    const { data } = await agent.call('shell', { argv: ['cat', 'src/note.txt', ...paths] });
    return (data as { stdout: string }).stdout;
  };
  const hidden = ['.handfast/state', 'src/deep/.Handfast/state', 'src/notes.txt', 'src/deep/other.txt'];
  assert.equal(await cat(...hidden), 'an ordinary file\n');
  // Files that appear between two programs are found, too.
  put('later/.handfast/state', SECRET);
  linkSync(join(folder, 'handfast.yaml'), join(folder, 'src/again.txt'));
  assert.equal(await cat('later/.handfast/state', 'src/again.txt', ...hidden), 'an ordinary file\n');
  unlinkSync(join(folder, 'src/again.txt'));
  put('src/again.txt', 'ordinary again\n');
  assert.equal(await cat('src/again.txt'), 'an ordinary file\nordinary again\n');
});

test('no program of a restricted principal runs while a protected file has a name that is not covered', {
  skip: !hasBubblewrap && 'needs bubblewrap',
}, async (t) => {
  const { folder, agent, boss } = await scene(t);
  const outside = temporaryFolder(t);
  linkSync(join(folder, 'secrets/other.token'), join(outside, 'copy'));
  assert.equal(await agent.tried('shell', { command: `cat ${join(outside, 'copy')}` }), DENIED);
  await assert.rejects(agent.call('shell', { command: 'true' }), /has 1 further names outside of the workspace/);
  assert.equal(await boss.tried('shell', { command: 'true' }), 'ok');
  unlinkSync(join(outside, 'copy'));
  assert.equal(await agent.tried('shell', { command: 'true' }), 'ok');
});

test('a program ends when a protected file is replaced, or comes into being, while it runs', {
  skip: !hasBubblewrap && 'needs bubblewrap',
}, async (t) => {
  const { folder, agent, put } = await scene(t);
  const running = (): { readonly outcome: Promise<string>; readonly began: () => boolean } => {
    rmSync(join(folder, 'src/began'), { force: true });
    const outcome = agent.tried('shell', { command: 'touch src/began; sleep 60', timeout_seconds: 50 });
    return { outcome, began: () => existsSync(join(folder, 'src/began')) };
  };
  const during = async (change: () => void): Promise<string> => {
    const { outcome, began } = running();
    while (!began()) await new Promise((resolve) => setTimeout(resolve, 10));
    change();
    return outcome;
  };
  put('rotated', `${SECRET}-of-tomorrow\n`);
  assert.equal(await during(() => renameSync(join(folder, 'rotated'), join(folder, 'secrets/other.token'))), DENIED);
  assert.equal(await during(() => put('log/audit.jsonl.1', '{}\n')), DENIED);
  // The file system may give the new file the inode of the old one.
  const again = (): void => {
    unlinkSync(join(folder, 'secrets/other.token'));
    put('secrets/other.token', `${SECRET}-again\n`);
  };
  assert.equal(await during(again), DENIED);
  // The cover moves with the folder, and the new one has none.
  const moved = (): void => {
    renameSync(join(folder, 'secrets'), join(folder, 'moved'));
    put('secrets/other.token', `${SECRET}\n`);
  };
  assert.equal(await during(moved), DENIED);
  rmSync(join(folder, 'moved'), { recursive: true });
  // Folders of users, however deep.
  assert.equal(await during(() => put('src/some/where/.handfast/token', SECRET)), DENIED);
  const replaced = (): void => {
    rmSync(join(folder, 'src/some/where/.handfast'), { recursive: true });
    put('src/some/where/.handfast/token', SECRET);
  };
  assert.equal(await during(replaced), DENIED);
  // A change of its content keeps the cover; other names are not protected.
  rmSync(join(folder, 'src/began'), { force: true });
  const kept = agent.call('shell', {
    command: 'touch src/began; until [ -e src/end ]; do sleep 0.05; done; cat secrets/*',
  });
  while (!existsSync(join(folder, 'src/began'))) await new Promise((resolve) => setTimeout(resolve, 10));
  writeFileSync(join(folder, 'secrets/other.token'), `${SECRET}\n`);
  put('secrets/note.txt', 'a note\n');
  put('src/end', '');
  assert.equal(((await kept).data as { stdout: string }).stdout, 'a note\n');
});
