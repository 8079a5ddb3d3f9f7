/** Signing in to an MCP server as its user does it: with and without a terminal, and with tokens that are none. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { redirectOf, type ServiceOptions, signInService, visit } from '../support/sign-in-service.ts';
import { User } from './command.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

/** Makes a user whose configuration names the guarded server. */
async function guarded(t: TestContext, options: ServiceOptions = {}, more = ''): Promise<User> {
  const { url } = await signInService(t, options);
  const user = new User();
  users.push(user);
  user.write(
    'handfast.yaml',
    `plugins:\n  - use: mcp\n    options:\n      servers: [{ name: guarded, url: "${url}"${more} }]\n`,
  );
  return user;
}

const LOGIN = ['mcp', 'login', 'guarded', '--config', 'handfast.yaml'];
const addressIn = (text: string): string | undefined => /^http\S+authorize\S*$/m.exec(text)?.[0];

const storedTokens = (user: User): string[] => {
  const folder = join(user.home, 'mcp', 'sign-ins');
  const found = readdirSync(user.home, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && entry.name.startsWith('guarded-') && entry.name.endsWith('.json'),
  );
  for (const { parentPath, name } of found) assert.equal(statSync(join(parentPath, name)).mode & 0o077, 0, folder);
  return found
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'))
    .filter((text) => text.includes('access_token'));
};

for (const [how, words, closes] of [
  ['with its input closed', LOGIN, true],
  ['with a pipe as its input', LOGIN, false],
  ['with its input closed and no browser', [...LOGIN, '--no-browser'], true],
  ['for a program', [...LOGIN, '--json'], true],
] as const) {
  test(`without a terminal, ${how}, it prints the address and waits for the browser`, async (t) => {
    const user = await guarded(t);
    const login = user.start(words);
    if (closes) login.child.stdin.end();
    await login.says('authorize', 'stderr');
    await login.says('\n\n', 'stderr', login.stderr.indexOf('authorize'));
    // It would have ended here: nothing but the page holds it.
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(login.child.exitCode, null, login.stderr);
    await visit(addressIn(login.stderr)!);
    const { code, stdout, stderr } = await login.ended();
    assert.equal(code, 0, stderr);
    assert.match(stdout, /signed in to guarded|"signed_in":true/);
    assert.equal(storedTokens(user).length, 1);
  });
}

test('an address that is piped to it signs in too', async (t) => {
  const user = await guarded(t);
  const login = user.start([...LOGIN, '--no-browser']);
  await login.says('paste the address', 'stderr');
  login.child.stdin.end(`${await redirectOf(addressIn(login.stderr)!)}\n`);
  assert.equal((await login.ended()).code, 0);
});

test('a signal ends the wait, and nothing is stored', async (t) => {
  const user = await guarded(t);
  const login = user.start(LOGIN);
  login.child.stdin.end();
  await login.says('authorize', 'stderr');
  login.child.kill('SIGINT');
  assert.notEqual((await login.ended()).code, 0);
  assert.deepEqual(storedTokens(user), []);
});

const CONTROLS = { NUL: '\0', 'a line feed': '\n', 'a carriage return': '\r', ESC: '\u001b', 'a C1 control': '\u009b' };

for (const [name, control] of Object.entries(CONTROLS)) {
  test(`a token with ${name} is no sign-in`, async (t) => {
    for (const member of ['access_token', 'refresh_token']) {
      const user = await guarded(t, { tokenMembers: { [member]: `good${control}X-Evil: 1` } });
      const login = user.start(LOGIN);
      await login.says('\n\n', 'stderr', 0);
      await login.says('authorize', 'stderr');
      await visit(addressIn(login.stderr)!);
      const { code, stderr } = await login.ended();
      assert.notEqual(code, 0);
      assert.match(stderr, /sent a token with a control character \(U\+00..\); nothing was stored/);
      assert.ok(!stderr.includes('X-Evil'));
      assert.deepEqual(storedTokens(user), []);
    }
  });
}

test('headers, tokens and keys with control characters are refused where they are given', async (t) => {
  const evil = 'value\u001b[2Jwith';
  const user = await guarded(t, {}, ', headers: { X-Key: "a\\r\\nX-Evil: 1" }');
  const up = await user.failure(['up', '--config', 'handfast.yaml', '--port', '0']);
  assert.equal(up.code, 'config_invalid');
  assert.match(up.message, /the header "?X-Key"? has a control character \(U\+000D\)/);

  const file = user.write('evil.token', `${evil}-0123456789abcdef\n`);
  for (const [words, env] of [
    [['ping', '--connect', 'tcp://127.0.0.1:1', '--token-file', file], {}],
    [['ping', '--connect', 'tcp://127.0.0.1:1'], { HANDFAST_TOKEN: `${evil}-0123456789abcdef` }],
    [['ping', '--connect', 'tcp://127.0.0.1:1'], { HANDFAST_TOKEN: 'abc\ndef-0123456789abcdef' }],
  ] as const) {
    const { code, message } = await user.failure(words, { env });
    assert.equal(code, 'usage', message);
    assert.match(message, /has a control character/);
    assert.ok(!message.includes('\u001b'));
  }

  const config = user.write('tokens.yaml', `auth:\n  tokens:\n    - { name: ci, token_file: ./evil.token }\n`);
  assert.match(
    (await user.failure(['config', 'check', config])).message,
    /expected a token without control characters/,
  );

  const { code, stderr } = await user.run(['auth', 'login', 'anthropic'], { input: 'sk-ant-012\u0000345\n' });
  assert.notEqual(code, 0);
  assert.match(stderr, /the key that was given has a control character \(U\+0000\)/);
});
