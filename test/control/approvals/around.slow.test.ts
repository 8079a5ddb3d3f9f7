/** The lines of `around.ts` in a real shell: those that go around a rule do start the program, everyday ones do not. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { AROUND, EVERYDAY } from './around.ts';

const place = mkdtempSync(join(tmpdir(), 'handfast-around-'));
after(() => rmSync(place, { recursive: true, force: true, maxRetries: 20 }));

/** Makes a repository with two commits and the files that the lines read. */
function workspace(): string {
  const folder = mkdtempSync(join(place, 'ws-'));
  const git = (...words: string[]) =>
    spawnSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@x', ...words], { cwd: folder });
  const files: Readonly<Record<string, string>> = {
    f: 'x\n',
    list: 'M\n',
    'z.sh': 'touch M\n',
    'f.js': '',
    Makefile: 'x:\n\t@$(X)\n',
    big: 'x\n'.repeat(60_000),
    'home/.gitconfig': '[alias]\n\tz = !touch M\n',
    'home/git/config': '[alias]\n\tz = !touch M\n',
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  chmodSync(join(folder, 'z.sh'), 0o755);
  git('init', '-q', '--template=');
  git('add', '-A');
  git('commit', '-qm', 'one');
  writeFileSync(join(folder, 'f'), 'y\n');
  git('commit', '-qam', 'two');
  writeFileSync(join(folder, 'f'), 'z\n');
  spawnSync('tar', ['cf', 'f.tar', 'f'], { cwd: folder });
  return folder;
}

const model = workspace();

/** True when the line made the file `M`. */
function starts(line: string): boolean {
  const folder = mkdtempSync(join(place, 'run-'));
  cpSync(model, folder, { recursive: true });
  const { PATH } = process.env;
  const env = {
    PATH,
    HOME: join(folder, 'nobody'),
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@x',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@x',
    FILTER_BRANCH_SQUELCH_WARNING: '1',
    ZZ: '!touch M',
  };
  const bash = ['--kill-after=1', '5', 'bash', '-O', 'expand_aliases', '-c', line];
  spawnSync('timeout', bash, { cwd: folder, env, stdio: ['ignore', 'ignore', 'ignore'] });
  const made = existsSync(join(folder, 'M'));
  // A line may leave a process that still writes here.
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  return made;
}

const isHere = ['bash', 'git', 'timeout'].every((name) => spawnSync(name, ['--version']).status === 0);

test('in a real shell the lines of the table do start the program', {
  skip: !isHere && 'bash, git or timeout is missing',
}, (t) => {
  for (const [group, lines] of Object.entries(AROUND)) {
    const idle = lines.filter((line) => !starts(line));
    t.diagnostic(`${group}: ${lines.length - idle.length} of ${lines.length} ran; not here: ${idle.join(' ¦ ')}`);
    // Some need a program, a version or a right that this machine has not.
    assert.ok(idle.length <= lines.length * 0.4, `${group}: ${idle.join('\n')}`);
  }
});

test('an everyday line starts it only where it is written so', {
  skip: !isHere && 'bash, git or timeout is missing',
}, () => {
  const safe =
    /^(?:ls|cat|grep|find|sort|sed|awk|tar|git (?:log|diff|show|status|grep)|for|while|if|\[|test|echo|printf|sh -c|env|timeout|nice|xargs|X=|f\(\)|case|let|read|mapfile|declare|split|tee)\b/;
  const lines = EVERYDAY.filter((line) => safe.test(line));
  assert.ok(lines.length > 60, `${lines.length}`);
  assert.deepEqual(
    lines.filter((line) => starts(line)),
    [],
  );
});
