/**
 * Approval rules in front of a running server: commands that a model is kept from, and the errors of a broken rule before the
 * start.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { configTemplate } from '../../src/config/template.ts';
import { connect as connectControl } from '../../src/control.ts';
import { User } from './command.ts';

const users: User[] = [];
const newUser = (): User => {
  const user = new User();
  users.push(user);
  return user;
};
after(() => Promise.all(users.map((user) => user.leave())));

const RULES = `control:
  approvals:
    rules:
      - command: ["pwd", "ls ..."]
        then: allow
        matches: ["pwd && ls src"]
        not: ["pwd; rm x", "ls > x"]
      - command: rm
        then: deny
        reason: nothing is removed
`;

test('a session runs what the rules cover, and neither what they forbid nor what hides behind it', async () => {
  const user = newUser();
  const config = user.write('handfast.yaml', RULES);
  const { ready } = await user.up(['--config', config], { env: { HANDFAST_KEYRING: 'off' } });
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  await using control = await connectControl(ready.url, { token });
  const victim = join(user.cwd, 'victim');
  writeFileSync(victim, '');
  /** Returns the decisions about a command, which are made without the user, with their reasons. */
  const run = async (command: string, approvals: 'allow' | 'deny') => {
    const session = await control.create({ cwd: user.cwd, approvals });
    const turn = await session.prompt(`run ${JSON.stringify(command)}`);
    let reasons = '';
    for await (const event of turn) {
      if (event.type === 'approval.requested') assert.fail(`asked for ${command}`);
      if (event.type !== 'approval.resolved') continue;
      const { state, reason } = event.payload.approval;
      reasons += `${state}: ${reason}`;
    }
    return reasons;
  };
  assert.equal(await run('pwd && ls', 'deny'), '', 'allowed by the rules');
  for (const command of [
    'pwd; rm victim',
    "ls $(r''m victim)",
    "sh -c 'rm victim'",
    'ls | xargs rm',
    'find . -name victim -exec rm {} +',
  ]) {
    for (const approvals of ['deny', 'allow'] as const) {
      assert.equal(await run(command, approvals), 'denied: nothing is removed', `${command} (${approvals})`);
      assert.ok(existsSync(victim), command);
    }
  }
  assert.match(await run('$(echo rm) victim', 'allow'), /^denied: .*known only when it runs/);
  assert.match(await run('ls > made; pwd', 'deny'), /^denied: this session denies what would be asked/);
  assert.deepEqual([existsSync(victim), existsSync(join(user.cwd, 'made'))], [true, false]);
});

test('a rule that cannot be used is reported with file, line and column, by config check and before a server starts', async () => {
  const user = newUser();
  const file = user.write(
    'handfast.yaml',
    `control:
  approvals:
    rules:
      - when: tool.input.command.startsWith("npm test")
        then: allow
      - command: npm test
        then: allow
        matches:
          - npm test
          - npm test && make
      - command: [ls, "git push;"]
        then: ask
`,
  );
  for (const command of [
    ['config', 'check', file],
    ['up', '--config', file, '--port', '0'],
  ]) {
    const { exit, code, message } = await user.failure(command);
    assert.deepEqual([exit, code], [2, 'config_invalid']);
    const lines = message.split('\n').slice(1);
    assert.equal(lines.length, 3, message);
    assert.match(
      lines[0] ?? '',
      /handfast\.yaml:4:15: at control\.approvals\.rules\[0\]\.when: .*write "command: npm test"/,
    );
    assert.match(
      lines[1] ?? '',
      /handfast\.yaml:10:13: at control\.approvals\.rules\[1\]\.matches\[1\]: .*must match, and does not/,
    );
    assert.match(
      lines[2] ?? '',
      /handfast\.yaml:11:23: at control\.approvals\.rules\[2\]\.command\[1\]: .*column 5 of the pattern/,
    );
  }
});

test('the example rules of init can be used as they are', async () => {
  const user = newUser();
  const template = configTemplate();
  const rules = /^ {4}#rules:\n(?: {4}# {2}.*\n)+/m.exec(template)?.[0];
  assert.ok(rules, 'the template has example rules');
  const file = user.write('handfast.yaml', template.replace(rules, rules.replaceAll(/^ {4}#/gm, '    ')));
  assert.equal((await user.run(['config', 'check', file])).code, 0);
});
