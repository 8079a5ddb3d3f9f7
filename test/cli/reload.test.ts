/** Rights that change while `handfast up` runs: by command, by signal, and through the trust in the folder. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import { User } from './command.ts';

const users: User[] = [];
const newUser = (): User => {
  const user = new User();
  users.push(user);
  return user;
};
after(() => Promise.all(users.map((user) => user.leave())));

const TOKEN = 'the-token-of-ann-0123456789';
const settings = (grants: string): string =>
  `auth: { tokens: [{ name: ann, token_env: ANN, ${grants} }] }\nplugins: [tools]\n`;
const env = { ANN: TOKEN };

test('a session that is open gets the rights of now by command and by SIGHUP; a file with problems changes nothing', async (t) => {
  const user = newUser();
  const file = user.write('handfast.yaml', settings('roles: [agent]'));
  const { command, ready } = await user.up(['--config', file], { env });
  const agent = await connect(ready.url, { capabilities: ['tools'], token: TOKEN });
  t.after(() => agent.close());
  const read = async () => await agent.tools.call('read_file', { path: 'a.txt' });
  user.write('a.txt', 'what it says');
  await read();

  user.write('handfast.yaml', settings('roles: [agent], tools: { deny: [read_file] }'));
  assert.deepEqual(await user.json(['config', 'reload']), { principals: ['ann'], restart: [] });
  await assert.rejects(read(), { code: 'tool_denied' });

  user.write('handfast.yaml', settings('roles: [nothing]'));
  assert.equal((await user.failure(['config', 'reload'])).code, 'config_invalid');
  command.child.kill('SIGHUP');
  await command.says('the rights were not reloaded', 'stderr');
  await agent.ping();

  user.write('handfast.yaml', settings('sessions: { read: own }'));
  command.child.kill('SIGHUP');
  const withdrawn = async (): Promise<boolean> => {
    const error = await read().then(
      () => undefined,
      (thrown: { code: string }) => thrown.code,
    );
    return error === 'capability_missing';
  };
  while (!(await withdrawn())) await new Promise((resolve) => setTimeout(resolve, 20));
  await agent.ping();
  command.child.kill('SIGTERM');
  assert.equal((await command.ended()).code, 0);
});

test('a configuration of the folder is read again only when it was trusted as it is now, and the server continues', async (t) => {
  const user = newUser();
  user.write('handfast.yaml', settings('roles: [agent]'));
  await user.json(['trust', 'add', '--yes']);
  const { command, ready } = await user.up([], { env });
  const agent = await connect(ready.url, { capabilities: ['tools'], token: TOKEN });
  t.after(() => agent.close());

  user.write('handfast.yaml', settings('admin: true'));
  assert.equal((await user.failure(['config', 'reload'])).code, 'untrusted_folder');
  await assert.rejects(Promise.resolve(agent.tools.call('shell', { command: 'true' })), { code: 'tool_denied' });

  await user.json(['trust', 'add', '--yes']);
  assert.deepEqual((await user.json(['config', 'reload'])).principals, ['ann']);
  await agent.tools.call('shell', { command: 'true' });
  assert.equal(command.child.exitCode, null);
  await user.json(['trust', 'rm', '.']);
  assert.equal((await command.ended()).code, 3);
});
