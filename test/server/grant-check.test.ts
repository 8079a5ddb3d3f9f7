/**
 * Grants within capabilities are held to the schemas of the plugins: a member that no plugin knows is refused with its place, at
 * the start, by `config check`, before a reload, and by hosts without a configuration.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLog } from '../../src/base/log.ts';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { type ConfigProblem, type HostConfig, loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import { assembleHost } from '../../src/server/assemble.ts';
import { checkGrants, checkLentGrants } from '../../src/server/grant-check.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import type { Grants } from '../../src/session/principal.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const TOKEN = 'a-token-that-is-long-enough';

async function load(t: TestContext, tokens: string, more = ''): Promise<HostConfig> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'handfast.yaml'), `auth:\n  tokens:\n${tokens}\n${more}`);
  return loadConfig('handfast.yaml', { env: { HANDFAST_HOME: join(cwd, 'home') }, cwd });
}

const tokenWith = (grants: string): string => `    - { name: ann, token: ${TOKEN}, grants: ${grants} }`;

async function problemsOf(check: Promise<unknown>): Promise<string[]> {
  try {
    await check;
    return [];
  } catch (thrown) {
    return placesOf(thrown as HandfastError);
  }
}

function placesOf(error: HandfastError): string[] {
  assert.equal(error.code, 'config_invalid', String(error.stack));
  return (error.detail.problems as ConfigProblem[]).map(({ path, message }) => `${path}: ${message}`);
}

const check = async (t: TestContext, grants: string, more?: string): Promise<string[]> =>
  problemsOf(checkGrants(await load(t, tokenWith(grants), more)));

const AT = 'auth.tokens[0].grants';

test('rules about tools under grants are refused with the place where they stand; they granted all tools', async (t) => {
  const elsewhere =
    'expected {}, because this capability has no rights within it; rules about tools stand in auth.tokens[0].tools: allow, deny, deny_risks, risks';
  for (const grant of [
    '{ tools: [read_file] }',
    '{ allow: [read_file] }',
    '[read_file]',
    'read_file',
    'true',
    'null',
  ]) {
    assert.deepEqual(await check(t, `{ tools: ${grant} }`), [`${AT}.tools: ${elsewhere}`], grant);
  }
  assert.deepEqual(await check(t, '{ tools: {} }'), []);
  assert.deepEqual(await check(t, '{ tools: {} }', 'plugins: [memory]'), []);
});

test('an unknown member of every capability is refused, with the known members and the nearest of them', async (t) => {
  for (const [capability, wrong, right] of [
    ['chains', 'acess: read', 'access'],
    ['env', 'enviroments: [x]', 'environments'],
    ['learning', 'recrod: false', 'record'],
    ['mcp', 'server: [x]', 'servers'],
    ['memory', 'reads: [x]', 'read'],
    ['multi_agent', 'kind: [x]', 'kinds'],
    ['planning', 'Access: read', 'access'],
    ['proc', 'program: [ls]', 'programs'],
    ['skill', 'skill: [x]', 'skills'],
    ['toolkits', 'name: [git]', 'names'],
  ] as const) {
    const [problem = '', ...more] = await check(t, `{ ${capability}: { ${wrong} } }`);
    const member = wrong.split(':')[0];
    assert.deepEqual(more, []);
    assert.ok(problem.startsWith(`${AT}.${capability}.${member}: expected one of `), problem);
    assert.ok(problem.endsWith(`, got "${member}" (did you mean "${right}"?)`), problem);
  }
});

test('no capability that comes with Handfast takes a member that it does not know', async (t) => {
  for (const { name } of builtinCapabilities) {
    assert.equal((await check(t, `{ ${name}: { zzz: 1 } }`)).length, 1, name);
    for (const grant of ['null', 'true', '[]', 'zzz']) {
      assert.equal((await check(t, `{ ${name}: ${grant} }`)).length, 1, `${name}: ${grant}`);
    }
  }
});

test('every unknown member is named, and a value of another type; the error has its line and column', async (t) => {
  assert.deepEqual(await check(t, '{ mcp: { servrs: [a], regster: [b], accept: 1 } }'), [
    `${AT}.mcp.servrs: expected one of servers, register, accept, got "servrs" (did you mean "servers"?)`,
    `${AT}.mcp.regster: expected one of servers, register, accept, got "regster" (did you mean "register"?)`,
    `${AT}.mcp.accept: must be boolean`,
  ]);
  assert.deepEqual(await check(t, '{ proc: { programs: npm test } }'), [`${AT}.proc.programs: must be array`]);
  assert.deepEqual(await check(t, '{ proc: { programs: [ls, 5] } }'), [`${AT}.proc.programs[1]: must be string`]);
  const config = await load(
    t,
    `    - name: ann\n      token: ${TOKEN}\n      grants:\n        proc:\n          program: [ls]`,
  );
  await assert.rejects(checkGrants(config), /handfast\.yaml:\d+:\d+: at auth\.tokens\[0\]\.grants\.proc\.program: /);
});

test('a grant names a known capability, in one spelling', async (t) => {
  const [unknown] = await check(t, '{ memroy: {} }');
  assert.equal(
    unknown,
    `${AT}.memroy: expected a capability of the protocol or of a loaded plugin, got "memroy" (did you mean "memory"?)`,
  );
  assert.equal((await check(t, '{ "*": {} }')).length, 1);
});

test('roles are checked as tokens are, used or not; so are grants for subagents', async (t) => {
  const config = await load(
    t,
    tokenWith('{ multi_agent: { delegate: { grants: { tools: { allow: [x] }, proc: { program: [ls] } } } } }'),
    '  roles:\n    some: { grants: { toolkits: { secret: [x] } } }\n',
  );
  const [tools = '', ...others] = await problemsOf(checkGrants(config));
  assert.match(tools, /rules about tools stand in auth\.tokens\[0\]\.grants\.multi_agent\.delegate\.tools/);
  assert.deepEqual(others, [
    `${AT}.multi_agent.delegate.grants.proc.program: expected one of programs, max_processes, got "program" (did you mean "programs"?)`,
    'auth.roles.some.grants.toolkits.secret: expected one of names, secrets, got "secret" (did you mean "secrets"?)',
  ]);
});

test('a host does not start with such a grant; one of a plugin is checked by its schema there, and left out by config check', async (t) => {
  const cwd = temporaryFolder(t);
  const plugin = join(cwd, 'notes.mjs');
  const grant = '{ type: "object", properties: { write: { type: "boolean" } } }';
  writeFileSync(
    plugin,
    `const plugin = () => ({ name: "notes", type: "notes", methods: [], grant: ${grant} });
     export const capability = { name: "notes", about: "Notes", plugin };`,
  );
  const start = async (grants: string): Promise<string[]> => {
    const config = await load(t, tokenWith(grants), `plugins: [tools, ${plugin}]\n`);
    assert.deepEqual(await problemsOf(checkGrants(config)), []);
    const auth = createAuthenticator(config.auth.grants);
    return problemsOf(assembleHost(config, { auth, log: silentLog }).then((host) => host.stop(0)));
  };
  assert.deepEqual(await start('{ notes: { write: true } }'), []);
  assert.deepEqual(await start('{ notes: { wirte: true } }'), [
    `${AT}.notes.wirte: expected one of write, got "wirte" (did you mean "write"?)`,
  ]);
  assert.match((await start('{ others: {} }'))[0] ?? '', /expected a capability of the protocol or of a loaded plugin/);
  assert.match((await start('{ tools: { allow: [x] } }'))[0] ?? '', /rules about tools stand in/);
});

test('a host without a configuration refuses such a grant at the handshake, and withdraws the capability when rights change', async (t) => {
  const tokens = (grants: Grants) => [{ principal: { name: 'ann', ...grants }, digests: [tokenDigest(TOKEN)] }];
  const auth = createAuthenticator(tokens({ grants: { tools: { allow: ['x'] } } }));
  const host = createHost({ plugins: [toolsPlugin({ tools: [] })], auth });
  await host.start();
  t.after(() => host.close(0));
  await assert.rejects(connect(host, { capabilities: ['tools'], token: TOKEN }), { code: 'server_error' });
  auth.replace(tokens({ grants: { tools: {} } }));
  const agent = await connect(host, { capabilities: ['tools'], token: TOKEN });
  t.after(() => agent.close());
  assert.deepEqual(await agent.tools.list(), []);
  auth.replace(tokens({ grants: { tools: { allow: ['x'] } } }));
  await assert.rejects(agent.tools.list(), { code: 'capability_missing' });
});

test('a worker lends nothing by a grant that is not known', () => {
  const plugins = [{ use: 'proc', builtin: true, priority: 0, exclusive: false, options: {} }];
  checkLentGrants('environment.grants', undefined, plugins);
  checkLentGrants('environment.grants', { proc: { programs: ['ls'] } }, plugins);
  assert.throws(() => checkLentGrants('environment.grants', { proc: { program: ['ls'] } }, plugins), {
    code: 'config_invalid',
    message: /environment\.grants\.proc\.program: .*did you mean "programs"/,
  });
});
