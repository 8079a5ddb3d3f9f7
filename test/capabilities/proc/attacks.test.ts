/**
 * Attempts of the holder of a restricted token: other programs, other arguments, other folders, links, and variables that run
 * code.
 */
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { SpawnOptions } from '../../../src/capabilities/proc/client.ts';
import { type Agent, connect } from '../../../src/connect.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { User } from '../../cli/command.ts';
import { until } from './support.ts';

const TOKEN = 'token-of-a-restricted-one-0001';
const OTHER = 'token-of-another-one-000000002';
const CONFIG = `listen: http://127.0.0.1:0
plugins: [{ use: proc, options: { programs: [sh] } }]
auth:
  tokens:
    - { name: restricted, token: ${TOKEN}, capabilities: [proc], grants: { proc: { programs: ["echo a*", "env", "MODE=fast* env -0", "cat notes/*"], max_processes: 2 } }, env: [NAMED, PART_*, LESS] }
    - { name: other, token: ${OTHER}, capabilities: [proc] }
`;

describe('the holder of a restricted token', { timeout: 240_000 }, () => {
  const user = new User();
  let agent: Agent<'proc'>;
  let url = '';
  before(async () => {
    const { ready } = await user.up(['--config', user.write('proc.yaml', CONFIG)]);
    url = ready.url;
    agent = await connect(url, { capabilities: ['proc'], token: TOKEN });
    mkdirSync(join(user.cwd, 'notes'));
    copyFileSync('/bin/sh', join(user.cwd, 'echo'));
    chmodSync(join(user.cwd, 'echo'), 0o755);
    symlinkSync('/bin/sh', join(user.cwd, 'env'));
    symlinkSync('/', join(user.cwd, 'root'));
    writeFileSync(join(user.cwd, 'plain'), 'no program\n');
  });
  after(async () => {
    await agent?.close();
    await user.leave();
  });

  const tried = (cmd: readonly string[], options: SpawnOptions = {}): Promise<string> =>
    agent.proc.spawn(cmd, options).then(
      async (child) => {
        await child.wait();
        return 'ran';
      },
      ({ code }: HandfastError) => code,
    );

  test('runs what the grant names, and nothing that only the configuration names', async () => {
    assert.equal(await tried(['echo', 'abc']), 'ran');
    for (const cmd of [
      ['sh', '-c', 'id'],
      ['/bin/sh', '-c', 'id'],
      ['echo', 'b'],
      ['echo', 'a', 'b'],
      ['echo'],
      ['echo', '-e', 'a'],
      // A pattern is one argument: no line break and no separator splits it.
      ['cat', 'notes/a', '/etc/passwd'],
      ['cat', '/etc/passwd'],
    ]) {
      assert.equal(await tried(cmd), 'proc.denied', cmd.join(' '));
    }
    for (const cmd of [[], [''], ['echo', 'a\0b']]) assert.equal(await tried(cmd), 'proc.invalid', JSON.stringify(cmd));
  });

  test('runs no second file of an allowed name, and none through a link', async () => {
    for (const program of [
      './echo',
      join(user.cwd, 'echo'),
      './env',
      join(user.cwd, 'env'),
      'root/bin/sh',
      './plain',
      'notes',
    ]) {
      assert.equal(await tried([program, 'abc']), 'proc.denied', program);
    }
    // A link to the file that the rule names counts as that file.
    symlinkSync('/bin/echo', join(user.cwd, 'says'));
    assert.equal(await tried(['./says', 'abc']), 'ran');
  });

  test('starts nothing outside the workspace', async () => {
    for (const cwd of ['/', '..', 'root', 'root/tmp', 'notes/../..', 'plain']) {
      assert.match(await tried(['echo', 'abc'], { cwd }), /^proc\.(denied|invalid)$/, cwd);
    }
    assert.equal(await tried(['echo', 'abc'], { cwd: 'notes' }), 'ran');
  });

  test('sets no variable that makes a program run or load code', async () => {
    for (const name of [
      'PATH',
      'LD_PRELOAD',
      'ld_preload',
      'NODE_OPTIONS',
      'BASH_ENV',
      'GIT_CONFIG_COUNT',
      'GIT_EXTERNAL_DIFF',
      'LESSOPEN',
    ]) {
      assert.equal(await tried(['env'], { env: { [name]: 'x' } }), 'proc.denied', name);
    }
    // Each of these runs code, writes a file or reads another configuration in a program that is allowed.
    for (const name of [
      ...['HOME', 'XDG_CONFIG_HOME', 'MAKEFLAGS', 'GNUMAKEFLAGS', 'TAR_OPTIONS', 'GIT_TRACE', 'GIT_DIR', 'ENV', 'IFS'],
      ...[
        'PYTHONPATH',
        'PERL5LIB',
        'RUBYOPT',
        'NODE_PATH',
        'npm_config_script_shell',
        'RSYNC_RSH',
        'MANPAGER',
        'SHELL',
      ],
      ...['RIPGREP_CONFIG_PATH', 'LESSKEYIN', 'TMPDIR', 'TERMINFO', 'LOCPATH', 'SSLKEYLOGFILE', 'MALLOC_TRACE', 'A'],
    ]) {
      assert.equal(await tried(['env'], { env: { [name]: 'x' } }), 'proc.denied', name);
    }
    const harmful: Record<string, string>[] = [
      { PAGER: 'sh -c id' },
      { TERM: '../x' },
      { LANG: '/tmp/x' },
      { TZ: ':/tmp/x' },
      { PS1: '$(id)' },
    ];
    for (const env of harmful) {
      assert.equal(await tried(['env'], { env }), 'proc.denied', JSON.stringify(env));
    }
    const harmless = {
      PAGER: 'cat',
      EDITOR: 'true',
      LANG: 'de_DE.UTF-8',
      TZ: 'Europe/Berlin',
      NO_COLOR: '1',
      COLUMNS: '80',
    };
    assert.equal(await tried(['env'], { env: harmless }), 'ran');
    for (const name of ['', 'A B', 'A=B', 'A\0B', 'Ä']) {
      assert.equal(await tried(['env'], { env: { [name]: 'x' } }), 'proc.invalid', JSON.stringify(name));
    }
    // Nor may it set the variable by which its processes are found.
    assert.equal(await tried(['env'], { env: { HANDFAST_CHILD_OF: 'nothing' } }), 'proc.denied');
    const child = await agent.proc.spawn(['env']);
    let text = '';
    for await (const piece of child.output()) text += piece.text;
    assert.match(text, /^HANDFAST_CHILD_OF=[0-9a-f]{32}\.\d+;$/m);
  });

  test('sets a variable that the grant or the rule of the program names, by its exact name if it can run code', async () => {
    assert.equal(await tried(['env'], { env: { NAMED: 'x y', PART_1: 'z', LESS: '-R' } }), 'ran');
    assert.equal(await tried(['env', '-0'], { env: { MODE: 'faster' } }), 'ran');
    const others: Record<string, string>[] = [
      { MODE: 'slow' },
      { NAMED_2: 'x' },
      { PART: 'x' },
      { part_1: 'x' },
      { LESSOPEN: 'x' },
    ];
    for (const env of others) {
      assert.equal(await tried(['env', '-0'], { env }), 'proc.denied', JSON.stringify(env));
    }
    assert.equal(await tried(['env'], { env: { MODE: 'fast' } }), 'proc.denied', 'the rule of another command line');
  });

  test('gets the name of the refused variable and the setting that allows it, and the audit has it', async () => {
    const refused = await agent.proc.spawn(['env'], { env: { OTHER: 'secret-value' } }).catch((error) => error);
    assert.match(refused.message, /variable OTHER; .*"OTHER=\* env", or the grant env: \[OTHER\] of restricted/);
    assert.deepEqual([refused.detail.reason, refused.detail.name], ['env_refused', 'OTHER']);
    const [{ file }] = (await user.json(['audit', 'verify'])).chains;
    const lines = () => readFileSync(file, 'utf8').split('\n');
    await until(() => lines().some((line) => line.includes('"reason":"env_refused OTHER"')), 'the line of the audit');
    const [line = ''] = lines().filter((one) => one.includes('env_refused OTHER'));
    assert.match(
      line,
      /"principal":"restricted".*"type":"proc\/spawn\/req".*"outcome":"error".*"error_code":"proc.denied"/,
    );
    assert.ok(!lines().join('').includes('secret-value'));
  });

  test('neither sees nor ends what another principal runs, and runs no more than it may', async () => {
    const other = await connect(url, { capabilities: ['proc'], token: OTHER });
    const theirs = await other.proc.spawn(['sh', '-c', 'sleep 600']);
    await assert.rejects(agent.proc.find(theirs.id), { code: 'unknown_proc' });
    assert.deepEqual(
      await agent.proc.list({ all: true }).then((all) => all.filter(({ proc_id }) => proc_id === theirs.id)),
      [],
    );
    await theirs.kill('SIGKILL');
    await other.close();
    // Each waits for a reader: more output than the pipe and the store hold.
    const cmd = ['cat', 'notes/endless'];
    symlinkSync('/dev/zero', join(user.cwd, 'notes', 'endless'));
    const running = [await agent.proc.spawn(cmd), await agent.proc.spawn(cmd)];
    await assert.rejects(agent.proc.spawn(cmd), { code: 'proc_limit' });
    for (const child of running) await child.kill('SIGKILL');
  });
});
