/** Files that commands and hosts write are their user's alone, also in a process without a file mask. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Command, plainEnvironment, User } from './command.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

/** Starts a command of the user without any mask. */
function unmasked(user: User, words: readonly string[]): Command {
  const env = plainEnvironment({ HANDFAST_HOME: user.home, HOME: user.folder, HANDFAST_KEYRING: 'off' });
  const line = ['-c', 'umask 000; exec "$@"', 'sh', ...user.line(words)];
  return new Command(spawn('/bin/sh', line, { cwd: user.cwd, env }));
}

async function ran(user: User, words: readonly string[], input = ''): Promise<string> {
  const command = unmasked(user, words);
  command.child.stdin.end(input);
  const { code, stdout, stderr } = await command.ended();
  assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
  return stdout;
}

/** Returns everything below a folder that another user could use. */
function openIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isSymbolicLink())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => (lstatSync(path).mode & 0o077) !== 0);
}

test('init, a host with sessions and keys, exports and recordings write nothing for other users', {
  skip: process.platform === 'win32',
}, async () => {
  const user = new User();
  users.push(user);
  await ran(user, ['init', 'agents']);
  assert.deepEqual(openIn(user.cwd), []);
  writeFileSync(
    join(user.cwd, 'trial.yaml'),
    'listen: [ http://127.0.0.1:0, unix://./h/s ]\njournal: { kind: sqlite }\n',
    {
      mode: 0o600,
    },
  );
  const up = unmasked(user, ['up', '--config', 'trial.yaml', '--json']);
  await up.says('"ready"');
  const { pid } = JSON.parse(up.stdout) as { pid: number };
  try {
    await ran(user, ['session', 'send', 'new', 'say "hi"', '--backend', 'rehearsal']);
    await ran(user, ['auth', 'login', 'compatible', '--base-url', 'http://127.0.0.1:9/v1'], 'key-0123456789\n');
    await ran(user, ['session', 'export', 'last', '--out', 'export.jsonl']);
    await ran(user, ['memory', 'put', 'a note']).catch(() => {});
    const [record = ''] = readdirSync(join(user.home, 'running'));
    assert.match(record, /\.json$/);
    // Sockets and records are there while it runs only.
    assert.deepEqual(
      openIn(user.folder).filter((path) => path !== user.cwd),
      [],
    );
  } finally {
    process.kill(pid, 'SIGTERM');
    await up.ended();
  }
  await ran(user, ['mcp', 'config', 'claude-code', '--write']).catch(() => {});
  const recording = unmasked(user, ['record', '--out', 'r', '--', ...user.line(['stdio'])]);
  recording.child.stdin.end(`${JSON.stringify({ type: 'handshake/req', id: '0', agent_caps: ['tools'] })}\n`);
  await once(recording.child, 'close');
  await ran(user, ['record', 'export', 'r', 'r.file']);
  mkdirSync(join(user.cwd, 'there'), { mode: 0o700 });
  await ran(user, ['record', 'import', 'r.file', 'there/in']);
  assert.deepEqual(
    openIn(user.folder).filter((path) => path !== user.cwd),
    [],
  );
});
