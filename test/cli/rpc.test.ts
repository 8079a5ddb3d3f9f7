/**
 * `handfast rpc` as a process: reads its options without the command line library, which has the words for mistakes and
 * help; and loads little before its handshake.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { PRINT_IMPORTS, User } from './command.ts';

const user = new User();
after(() => user.leave());

const handshake = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'rpc.handshake' })}\n`;

test('every option may be given in either form, and the handshake is answered', async () => {
  const words = ['rpc', '--backend=rehearsal', '--server-name', 'nearby', '--cwd', '.', '--verbose'];
  const { code, stdout } = await user.run(words, { input: handshake });
  assert.equal(code, 0);
  const { result } = JSON.parse(stdout.split('\n')[0] as string);
  assert.equal(result.server_name, 'nearby');
});

test('mistakes end with 2, leave stdout empty, and name the mistake', async () => {
  for (const [words, message] of [
    [['rpc', '--bakcend', 'model'], /unknown option '--bakcend'/],
    [['rpc', '--backend'], /option '--backend <name>' argument missing/],
    [['rpc', 'model'], /too many arguments for 'rpc'/],
    [['--json', 'rpc'], /unknown option '--json' for rpc/],
    [['rpc', '--backend', 'nowhere'], /there is no backend nowhere/],
    [['rpc', '--config', 'absent.yaml'], /absent\.yaml/],
  ] as const) {
    const { code, stdout, stderr } = await user.run(words, { input: handshake });
    assert.deepEqual({ words, code, stdout }, { words, code: 2, stdout: '' });
    assert.match(stderr, message);
  }
});

test('with a configuration named elsewhere, sessions work in the current folder', async () => {
  mkdirSync(join(user.folder, 'elsewhere'));
  const config = join(user.folder, 'elsewhere', 'own.yaml');
  writeFileSync(config, 'control: { backend: rehearsal }\n');
  const create = `${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'session.create' })}\n`;
  const { code, stdout } = await user.run(['rpc', '--config', config], { input: handshake + create });
  assert.equal(code, 0);
  const replies = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.equal(replies.find(({ id }) => id === 2).result.state.cwd, user.cwd);
});

test('help comes from the command line', async () => {
  const { code, stdout } = await user.run(['rpc', '--help']);
  assert.equal(code, 0);
  assert.match(stdout, /serve session RPC to the program that started this one/);
});

test('without a configuration nothing is loaded that the handshake does not need', async () => {
  const { stderr } = await user.run(['rpc', '--backend', 'rehearsal'], { input: handshake, node: PRINT_IMPORTS });
  // The keyring's package is looked for and not loaded.
  const imports = stderr.split('\n').filter((each) => !each.includes('@napi-rs/keyring'));
  assert.ok(imports.some((each) => each.endsWith('/src/control/control-server.ts')));
  const forbidden =
    / imports (?:.*node_modules|node:(?:https?|worker_threads)|.*\/src\/(?:agent|acp|cli\/program|config\/config|host\/host\.|server\/http))/;
  assert.deepEqual(
    imports.filter((each) => forbidden.test(each)),
    [],
  );
});
