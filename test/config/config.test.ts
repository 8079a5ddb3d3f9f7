/**
 * The configuration file: the result of a correct one, and for each error the line, the column and the words. The
 * template and the JSON Schema are checked against the same loader.
 */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Alias } from 'yaml';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import {
  type ConfigProblem,
  type ConfigSections,
  composeConfig,
  configSchema,
  type HostConfig,
  loadConfig,
  readPluginOptions,
  type SettingSchema,
} from '../../src/config/config.ts';
import { configTemplate } from '../../src/config/template.ts';
import { defaultHostLimits } from '../../src/host/host-limits.ts';
import { createAuthenticator } from '../../src/session/auth.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const TOKEN = 'a-token-that-is-long-enough';
const env = { HANDFAST_HOME: '/nowhere/handfast-home' };

function load(t: TestContext, yaml: string, more: Record<string, string> = {}): Promise<HostConfig> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'handfast.yaml'), yaml);
  return loadConfig('handfast.yaml', { env: { ...env, ...more }, cwd });
}

/** Loads a file that must not load, and returns the problems as `line:column path: message`. */
async function problemsOf(t: TestContext, yaml: string, more?: Record<string, string>): Promise<string[]> {
  const error = await load(t, yaml, more).then(
    () => assert.fail('the file was accepted'),
    (thrown: HandfastError) => thrown,
  );
  assert.equal(error.code, 'config_invalid', String(error.stack));
  const problems = error.detail.problems as ConfigProblem[];
  for (const { line, column, path, message } of problems) {
    const place = path === '' ? '' : `at ${path}: `;
    assert.ok(error.message.includes(`handfast.yaml:${line}:${column}: ${place}${message}`), error.message);
  }
  return problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`);
}

test('without a file the defaults come out frozen, and yaml is never loaded', async (t) => {
  const cwd = temporaryFolder(t);
  const config = await loadConfig(undefined, { env, cwd });
  assert.deepEqual(config.listen, ['http://127.0.0.1:4700']);
  assert.equal(config.hostId, 'handfast');
  assert.equal(config.workspace, cwd);
  assert.deepEqual(config.limits, defaultHostLimits);
  assert.deepEqual(config.auth, { required: true, grants: [], capabilityGrants: [], tokenFiles: [] });
  assert.equal(config.journal.kind, 'memory');
  assert.equal(config.audit.file, '/nowhere/handfast-home/hosts/handfast/audit.jsonl');
  assert.deepEqual(
    config.plugins.map(({ use, builtin }) => ({ use, builtin })),
    builtinCapabilities.filter(({ byDefault }) => byDefault).map(({ name }) => ({ use: name, builtin: true })),
  );
  const frozen = (value: object): boolean =>
    Object.isFrozen(value) &&
    Object.values(value).every((each) => typeof each !== 'object' || each === null || frozen(each));
  assert.ok(frozen(config));

  const script = `
    import { registerHooks } from 'node:module';
    let yaml = false;
    registerHooks({ resolve(name, context, next) { yaml ||= name === 'yaml'; return next(name, context); } });
    const { loadConfig } = await import(${JSON.stringify(import.meta.resolve('../../src/config/config.ts'))});
    await loadConfig(undefined);
    console.log(String(yaml));
  `;
  const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd, encoding: 'utf8' });
  assert.equal(printed.trim(), 'false');
});

test('an empty file, and sections without settings, are the defaults', async (t) => {
  const plain = await loadConfig(undefined, { env, cwd: temporaryFolder(t) });
  for (const yaml of ['', '# nothing but a comment\n', 'limits:\nauth:\nplugins:\nhttp: {}\n']) {
    const config = await load(t, yaml);
    assert.deepEqual(config.limits, plain.limits);
    assert.deepEqual(config.plugins, plain.plugins);
    assert.deepEqual(config.auth, plain.auth);
  }
});

test('settings come out typed, camelCase, with absolute paths', async (t) => {
  const cwd = temporaryFolder(t);
  mkdirSync(join(cwd, 'etc'));
  mkdirSync(join(cwd, 'real'));
  symlinkSync(join(cwd, 'real'), join(cwd, 'etc', 'work'));
  writeFileSync(join(cwd, 'etc', 'greet.ts'), '');
  writeFileSync(
    join(cwd, 'etc', 'handfast.yaml'),
    `
host_id: box-1
workspace: work
listen: [http://127.0.0.1:0, "tcp://[::1]:4701", unix://run/hf.sock]
http:
  allowed_hosts: Box.lan:4700
limits: { max_message_bytes: 67108864, queue_limit: 0 }
journal: { kind: sqlite, file: data/j.db }
audit: { enabled: false, max_files: 3 }
plugins:
  - use: tools
    options: { shell: true, allow_private_addresses: false, allow: [read_*], deny_risks: exec }
  - use: ./greet.ts
    priority: 5
    options: { some_key: [1, { deep: true }] }
`,
  );
  const config = await loadConfig('etc/handfast.yaml', { env, cwd });
  assert.equal(config.workspace, join(cwd, 'real'));
  assert.deepEqual(config.listen, ['http://127.0.0.1:0', 'tcp://[::1]:4701', `unix://${cwd}/etc/run/hf.sock`]);
  assert.deepEqual(config.http.allowedHosts, ['box.lan:4700']);
  assert.equal(config.limits.maxMessageBytes, 64 * 1024 * 1024);
  assert.equal(config.limits.queueLimit, 0);
  assert.equal(config.journal.file, join(cwd, 'etc/data/j.db'));
  assert.deepEqual([config.audit.enabled, config.audit.maxFiles], [false, 3]);
  const [tools, greet] = config.plugins;
  assert.deepEqual(tools?.options, {
    shell: true,
    allowPrivateAddresses: false,
    allow: ['read_*'],
    denyRisks: ['exec'],
  });
  assert.deepEqual(greet, {
    use: join(cwd, 'etc/greet.ts'),
    builtin: false,
    priority: 5,
    exclusive: false,
    options: { some_key: [1, { deep: true }] },
  });
  assert.equal(config.file, join(cwd, 'etc/handfast.yaml'));
});

test('tokens come from files, variables and the file itself, several at a time, and only digests are kept', async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'ci.token'), `# the new one\n${TOKEN}-1\n\n${TOKEN}-2\n`, { mode: 0o600 });
  writeFileSync(
    join(cwd, 'handfast.yaml'),
    `
auth:
  tokens:
    - name: ci
      token_file: ci.token
      token_env: CI_TOKEN
      capabilities: [tools, procs, notes]
      grants: { notes: { folders: [a], write: true } }
      tools: { allow: [file_*], deny_risks: exec }
      roles: [worker, viewer, scribe]
      limits: { max_parallel: 2 }
    - { name: ops, token: ${TOKEN}-4, admin: true }
  roles: { scribe: { folders: . } }
`,
  );
  const config = await loadConfig('handfast.yaml', { env: { ...env, CI_TOKEN: `${TOKEN}-3` }, cwd });
  const { authenticate } = createAuthenticator(config.auth.grants);
  for (const n of [1, 2, 3]) assert.equal(authenticate(`${TOKEN}-${n}`)?.name, 'ci');
  assert.deepEqual(authenticate(`${TOKEN}-1`), {
    name: 'ci',
    // Other spellings of a capability mean the standard name.
    capabilities: ['tools', 'proc', 'notes'],
    grants: { notes: { folders: ['a'], write: true } },
    tools: { allow: ['file_*'], denyRisks: ['exec'] },
    limits: { maxParallel: 2 },
    // Grants of its roles.
    fleet: { worker: ['ci'] },
    sessions: { read: 'all' },
    folders: [cwd],
  });
  assert.equal(authenticate(`${TOKEN}-4`)?.admin, true);
  assert.equal(authenticate(TOKEN), undefined);
  assert.ok(!JSON.stringify(config).includes(TOKEN));
  assert.deepEqual(
    config.warnings.map(({ line, column, path }) => `${line}:${column} ${path}`),
    ['12:27 auth.tokens[1].token'],
  );
});

test('a token file others can read is a warning', async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'ci.token'), TOKEN);
  chmodSync(join(cwd, 'ci.token'), 0o644);
  writeFileSync(join(cwd, 'handfast.yaml'), 'auth: { tokens: [{ name: ci, token_file: ci.token }] }');
  const { warnings } = await loadConfig('handfast.yaml', { env, cwd });
  assert.match(warnings[0]?.message ?? '', /only its owner can read, got mode 644/);
});

test('every kind of problem is reported with its line, column and path', async (t) => {
  const cases: [yaml: string, ...problems: (string | RegExp)[]][] = [
    [
      'limits:\n  max_parralel: 3\n',
      /^2:3 limits\.max_parralel: expected one of .*, got "max_parralel" \(did you mean "max_parallel"\?\)$/,
    ],
    ['colour: red\n', /^1:1 colour: expected one of host_id, .*, got "colour"$/],
    ['host_id: [a]\n', '1:10 host_id: expected a name of 1 to 64 letters, digits, ".", "_" or "-", got a list'],
    ['host_id: 12\n', /^1:10 host_id: expected .*, got the number 12 \(put it in quotes\)$/],
    ['host_id:\n', /^1:\d+ host_id: expected .*, got nothing$/],
    ['limits: 3\n', '1:9 limits: expected a map, got the number 3'],
    ['limits: { max_depth: 7 }\n', '1:22 limits.max_depth: expected a whole number from 8 to 1000, got the number 7'],
    ['limits: { max_depth: "64" }\n', '1:22 limits.max_depth: expected a whole number from 8 to 1000, got "64"'],
    ['limits: { max_depth: 9.5 }\n', /got the number 9\.5$/],
    [
      'limits: { max_message_bytes: 67108865 }\n',
      /^1:30 limits\.max_message_bytes: expected a whole number from 65536 to 67108864/,
    ],
    ['audit: { enabled: yes }\n', '1:19 audit.enabled: expected true or false, got "yes"'],
    [
      'journal: { kind: sqlit }\n',
      '1:18 journal.kind: expected memory or sqlite, got "sqlit" (did you mean "sqlite"?)',
    ],
    ['journal:\n  file: j.db\n', '2:9 journal.file: expected kind: sqlite beside a file, got kind: memory'],
    ['listen:\n  - 4700\n', /^2:5 listen\[0\]: expected http:\/\/host:port, .*, got the number 4700$/],
    ['listen: ftp://127.0.0.1:1\n', /^1:9 listen: expected .*, got "ftp:\/\/127\.0\.0\.1:1"$/],
    ['listen: []\n', '1:9 listen: expected at least 1 in the list, got 0'],
    [
      'listen:\n  - tcp://127.0.0.1:1\n  - tcp://127.0.0.1:1\n',
      '3:5 listen[1]: expected each once, got "tcp://127.0.0.1:1" again',
    ],
    [
      'listen:\n  - http://127.0.0.1:1\n  - http://0.0.0.0:2\n',
      /^3:5 listen\[1\]: expected a loopback address, or a token .* and insecure_bind: true .*, got http:\/\/0\.0\.0\.0:2/,
    ],
    [
      'limits: { max_depth: 9, max_depth: 9 }\n',
      '1:25 limits.max_depth: expected each key once, got "max_depth" again',
    ],
    ['http: { allowed_origins: ["*"] }\n', /^1:27 http\.allowed_origins\[0\]: expected an origin/],
    ['http: { allowed_hosts: ["http://x"] }\n', /^1:25 http\.allowed_hosts\[0\]: expected a host name/],
    ['workspace: missing\n', /^1:12 workspace: expected a folder, got nothing: /],
    ['workspace: handfast.yaml\n', /^1:12 workspace: expected a folder, got a file: /],
    [
      'plugins: [toolz]\n',
      /^1:11 plugins\[0\]: expected a built-in plugin .*, got "toolz" \(did you mean "tools"\?\)$/,
    ],
    ['plugins: [./none.ts]\n', /^1:11 plugins\[0\]: expected the path of a module, got nothing: /],
    ['plugins:\n  - tools\n  - use: tools\n', '3:5 plugins[1]: expected each built-in plugin once, got "tools" again'],
    ['plugins:\n  - priority: 1\n', /^2:5 plugins\[0\]\.use: expected a built-in plugin .*, got nothing$/],
    [
      'plugins:\n  - use: tools\n    options:\n      shel: true\n',
      /^4:7 plugins\[0\]\.options\.shel: expected one of .*\(did you mean "shell"\?\)$/,
    ],
    ['limits: { outbox_bytes: 65536 }\n', /^1:11 limits\.outbox_bytes: .*\(did you mean "send_buffer_bytes"\?\)$/],
    ['limits: { shutdown_ms: 1 }\n', /\(did you mean "shutdown_timeout_ms"\?\)$/],
    ['limits: { max_pending_links: 1 }\n', /\(did you mean "max_pending_connections"\?\)$/],
    ['control: { data: ./x }\n', /^1:12 control\.data: .*\(did you mean "data_dir"\?\)$/],
    [
      'auth: { tokens: [{ name: a }] }\n',
      '1:18 auth.tokens[0]: expected token_file, token_env or token, got none of them',
    ],
    ['auth: { tokens: [{ token_env: X }] }\n', /^1:18 auth\.tokens\[0\]\.name: expected a name .*, got nothing$/, /.*/],
    [
      'auth: { tokens: [{ name: a, token_env: NOT_SET }] }\n',
      '1:40 auth.tokens[0].token_env: expected the environment variable NOT_SET to be set, got nothing',
    ],
    [
      'auth: { tokens: [{ name: a, token_file: gone }] }\n',
      /^1:41 auth\.tokens\[0\]\.token_file: expected a readable file; it does not exist: /,
    ],
    ['auth: { tokens: [{ name: a, token_file: . }] }\n', /expected a readable file, got a folder: /],
    [
      `auth: { tokens: [{ name: a, token: ${TOKEN}, capabilities: [tool] }] }\n`,
      /^1:80 auth\.tokens\[0\]\.capabilities\[0\]: expected one of skill, tools, .*\(did you mean "tools"\?\)$/,
    ],
    [
      `auth:\n  tokens:\n    - { name: a, token: ${TOKEN} }\n    - { name: a, token: ${TOKEN} }\n`,
      '4:15 auth.tokens[1].name: expected a name of its own, got one that was used before',
      '4:25 auth.tokens[1].token: expected a token of its own, got one of "a"',
    ],
    [
      `auth: { required: false, tokens: [{ name: a, token: ${TOKEN} }] }\n`,
      '1:19 auth.required: expected true, because tokens are listed, got false',
    ],
    ['- a\n- b\n', '1:1 : expected a map, got a list'],
    ['a: [1\n', /^\d:\d+ : expected valid YAML, got: /],
    ['limits:\n\tmax_depth: 9\n', /^2:1 : expected valid YAML, got: Tabs are not allowed/],
    ['host_id: "x\n', /^2:1 : expected valid YAML, got: Missing closing "quote$/],
    ['host_id: a\n---\nhost_id: b\n', /^2:1 : expected valid YAML, got: Source contains multiple documents/],
    ['host_id: !secret x\n', /^1:10 : expected valid YAML, got: Unresolved tag: !secret$/],
    ['host_id: *nope\n', '1:10 host_id: expected a value, got an alias of no anchor above it', /.*/],
    [
      'http: &x { allowed_hosts: *x }\n',
      '1:27 http.allowed_hosts: expected a value, got an alias of what it is part of',
    ],
    ['limits: { <<: 3 }\n', '1:15 limits: expected a map, or a list of maps, to merge, got something else'],
    ['? [a]\n: 1\n', '1:3 : expected a plain word as the key, got something else'],
    ['__proto__: { a: 1 }\n', /^1:1 __proto__: expected one of /],
  ];
  for (const [yaml, ...expected] of cases) {
    await t.test(JSON.stringify(yaml), async (t) => {
      const problems = await problemsOf(t, yaml);
      assert.equal(problems.length, expected.length, problems.join('\n'));
      for (const [index, wanted] of expected.entries()) {
        if (typeof wanted === 'string') assert.equal(problems[index], wanted);
        else assert.match(problems[index]!, wanted);
      }
    });
  }
});

test('all problems of a file are reported at once, in the order of the file', async (t) => {
  const problems = await problemsOf(
    t,
    'journal: { kind: disk }\nhost_id: "a b"\nlisten: http://10.0.0.1:80\nauth: { tokens: [{ name: x }] }\nlimitz: {}\nworkspace: gone\n',
  );
  assert.deepEqual(
    problems.map((problem) => problem.split(': ')[0]),
    ['1:18 journal.kind', '2:10 host_id', '3:9 listen', '4:18 auth.tokens[0]', '5:1 limitz', '6:12 workspace'],
  );
});

test('no message repeats a secret, wherever it was put by mistake', async (t) => {
  const secret = 'sup3rs3cr3t';
  for (const yaml of [
    `auth: ${secret}\n`,
    `auth: { tokens: ${secret} }\n`,
    `auth: { tokens: [{ name: a, token: ${secret} }] }\n`,
    `auth: { tokens: [{ name: a, token_env: "${secret} " }] }\n`,
    `auth: { tokens: [{ name: "${secret} " }] }\n`,
    `auth: { tokens: [{ name: a, token: "x" ${secret} }] }\n`,
    `auth:\n  tokens:\n   - token: a: ${secret}\n`,
    `auth:\n  tokens: "a" "${secret}"\n`,
  ]) {
    const problems = await problemsOf(t, yaml);
    assert.ok(problems.length > 0);
    assert.ok(!problems.join('\n').includes(secret), problems.join('\n'));
  }
});

test('anchors, aliases and merge keys work, and what a map says itself wins', async (t) => {
  const config = await load(
    t,
    `
auth:
  tokens:
    - &base
      name: one
      token_env: ONE
      limits: &limits { max_parallel: 2, queue_limit: 5 }
    - <<: *base
      name: two
      token_env: TWO
    - name: three
      token_env: THREE
      limits: { max_parallel: 9, <<: [{ max_parallel: 8 }, *limits] }
`,
    { ONE: `${TOKEN}1`, TWO: `${TOKEN}2`, THREE: `${TOKEN}3` },
  );
  assert.deepEqual(
    config.auth.grants.map(({ principal }) => [principal.name, principal.limits]),
    [
      ['one', { maxParallel: 2, queueLimit: 5 }],
      ['two', { maxParallel: 2, queueLimit: 5 }],
      ['three', { maxParallel: 9, queueLimit: 5 }],
    ],
  );
});

test('an alias means the anchor before it, and is found without a search of the text', async (t) => {
  const resolve = t.mock.method(Alias.prototype, 'resolve');
  const names = Array.from({ length: 500 }, (_, at) => `name-${at}`);
  const tokens = names.map((name, at) => `    - { name: ${name}, token_env: T${at}, limits: *limits }`);
  const again = '    - { name: again, token_env: AGAIN, limits: &limits { max_parallel: 3 } }';
  const config = await load(
    t,
    `auth:\n  tokens:\n${again.replace('3 }', '2 }').replace('again', 'first').replace('AGAIN', 'FIRST')}\n${tokens.join('\n')}\n${again}\n    - { name: last, token_env: LAST, limits: *limits }\n`,
    Object.fromEntries(
      ['FIRST', 'AGAIN', 'LAST', ...names.map((_, at) => `T${at}`)].map((name) => [name, TOKEN + name]),
    ),
  ).catch((error: Error) => error.message);
  assert.equal(resolve.mock.callCount(), 0);
  assert.equal(typeof config === 'string' ? config.slice(0, 300) : '', '');
  const limits = (config as Exclude<typeof config, string>).auth.grants.map(
    ({ principal }) => principal.limits?.maxParallel,
  );
  assert.deepEqual([limits.at(0), limits.at(1), limits.at(-2), limits.at(-1)], [2, 2, 3, 3]);
});

test('aliases that multiply are stopped', async (t) => {
  const levels = Array.from(
    { length: 9 },
    (_, i) =>
      `  - &l${i + 1} [${Array(9)
        .fill(i === 0 ? 'x' : `*l${i}`)
        .join(', ')}]`,
  );
  const problems = await problemsOf(t, `listen:\n${levels.join('\n')}\n`);
  assert.ok(
    problems.some((problem) => problem.includes('expected at most 10000 values, got more')),
    problems.join('\n'),
  );
});

test('a file that cannot be read, is too long or is not text is a problem, not a crash', async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'big.yaml'), `# ${'x'.repeat(1024 * 1024)}`);
  writeFileSync(join(cwd, 'latin1.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xe9]));
  for (const [file, message] of [
    ['gone.yaml', /^gone\.yaml:1:1: there is no such file$/],
    ['.', /^\.:1:1: expected a readable file; it is a directory$/],
    ['big.yaml', /^big\.yaml:1:1: expected at most 1048576 bytes, got 1048578$/],
    ['latin1.yaml', /got something that is not UTF-8$/],
  ] as const) {
    await assert.rejects(loadConfig(file, { env, cwd }), { code: 'config_invalid', message });
  }
});

test('addresses of other machines need a token and the word for it', async (t) => {
  const tokens = `auth: { tokens: [{ name: a, token: ${TOKEN} }] }\n`;
  const listen = 'listen: tcp://0.0.0.0:4700\n';
  assert.match((await problemsOf(t, listen))[0]!, /a token .* and insecure_bind/);
  assert.match((await problemsOf(t, `${listen}insecure_bind: true\n`))[0]!, /or a token \(auth\.tokens\), got/);
  assert.match((await problemsOf(t, listen + tokens))[0]!, /or insecure_bind: true/);
  assert.deepEqual((await load(t, `${listen}insecure_bind: true\n${tokens}`)).listen, ['tcp://0.0.0.0:4700']);
});

test('the permission may also come from the program that starts the host, and stands in for nothing else', async (t) => {
  const cwd = temporaryFolder(t);
  const listen = 'listen: tcp://0.0.0.0:4700\n';
  const tokens = `auth: { tokens: [{ name: a, token: ${TOKEN} }] }\n`;
  const loaded = (yaml: string, insecureBind: boolean) => {
    writeFileSync(join(cwd, 'handfast.yaml'), yaml);
    return loadConfig('handfast.yaml', { env, cwd, insecureBind });
  };
  const { insecureBind, listen: addresses } = await loaded(listen + tokens, true);
  assert.deepEqual({ insecureBind, addresses }, { insecureBind: true, addresses: ['tcp://0.0.0.0:4700'] });
  await assert.rejects(loaded(listen + tokens, false), { code: 'config_invalid', message: /or insecure_bind: true/ });
  await assert.rejects(loaded(listen, true), { code: 'config_invalid', message: /or a token \(auth\.tokens\), got/ });
});

test('the template loads as the defaults, and so does every setting in it once its # is taken away', async (t) => {
  const template = configTemplate();
  const plain = await load(t, '');
  const loaded = await load(t, template);
  assert.deepEqual({ ...loaded, file: '', workspace: '' }, { ...plain, file: '', workspace: '' });
  assert.ok(template.split('\n').every((line) => line.length <= 100));

  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'ci.token'), TOKEN, { mode: 0o600 });
  writeFileSync(join(cwd, 'my-plugin.ts'), '');
  const live = template.replace(/^plugins:\n(?: {2}- \w+\n)+/m, '').replaceAll(/^( *)#(?=[^ #\n]| {2})/gm, '$1');
  writeFileSync(join(cwd, 'handfast.yaml'), live);
  const config = await loadConfig('handfast.yaml', { env, cwd });
  assert.equal(config.auth.grants[0]?.principal.name, 'ci');
  assert.equal(config.journal.file, join(cwd, 'handfast.db'));
  assert.equal(config.plugins.length, 2);

  const { parse } = await import('yaml');
  assert.ok(new Ajv2020({ strict: false }).validate(configSchema(), parse(live)));
});

test('the JSON Schema agrees with the loader about what is right and wrong', async (t) => {
  const { parse } = await import('yaml');
  const validate = new Ajv2020({ strict: false }).compile(configSchema());
  const right = [
    configTemplate(),
    'limits:\nplugins: tools\n',
    'listen: [tcp://127.0.0.1:1]\n',
    'plugins: [{ use: tools, options: { shell: true } }]\n',
    'auth: { tokens: [{ name: a, token_env: A, tools: { deny_risks: [exec] } }] }\n',
  ];
  for (const yaml of right) {
    await load(t, yaml, { A: TOKEN });
    assert.ok(validate(parse(yaml)), `${yaml}: ${JSON.stringify(validate.errors)}`);
  }
  const wrong = [
    'limits: { max_parralel: 3 }\n',
    'limits: { max_depth: 7 }\n',
    'listen: []\n',
    'journal: { kind: disk }\n',
    'plugins: [{ priority: 1 }]\n',
    'plugins: [{ use: tools, options: { shel: true } }]\n',
    'auth: { tokens: [{ token_env: A }] }\n',
  ];
  for (const yaml of wrong) {
    await problemsOf(t, yaml);
    assert.ok(!validate(parse(yaml)), yaml);
  }
  const described = JSON.stringify(configSchema());
  assert.ok(described.includes('"description":"Longest message after the handshake, in bytes."'));
});

const memory: SettingSchema = {
  type: 'object',
  description: 'Memory of agents.',
  properties: {
    file: { type: 'string', format: 'path', description: 'Where it is stored.' },
    max_notes: { type: 'integer', minimum: 1, maximum: 100, default: 10, description: 'Notes at most.' },
    kinds: { type: 'array', items: { enum: ['fact', 'plan'] }, default: ['fact'], description: 'Kinds of notes.' },
  },
  required: ['max_notes', 'kinds'],
};

test('a section of a capability package is read like the others', async (t) => {
  const cwd = temporaryFolder(t);
  const loaded = (yaml: string) => {
    writeFileSync(join(cwd, 'handfast.yaml'), yaml);
    return loadConfig('handfast.yaml', { env, cwd, sections: { agent_memory: memory } });
  };
  const config = await loaded('host_id: a\nagent_memory:\n  file: notes.db\n  kinds: plan\n');
  assert.deepEqual(config.sections, {
    agent_memory: { file: join(cwd, 'notes.db'), maxNotes: 10, kinds: ['plan'] },
  });
  assert.equal('agentMemory' in config, false);
  assert.deepEqual((await loaded('')).sections, { agent_memory: { maxNotes: 10, kinds: ['fact'] } });
  await assert.rejects(loaded('limits: { max_depth: 7 }\nagent_memory:\n  max_note: 3\n  kinds: [fakt]\n'), {
    code: 'config_invalid',
    message: [
      'handfast.yaml has 3 problems:',
      'handfast.yaml:1:22: at limits.max_depth: expected a whole number from 8 to 1000, got the number 7',
      'handfast.yaml:3:3: at agent_memory.max_note: expected one of file, max_notes, kinds, got "max_note" (did you mean "max_notes"?)',
      'handfast.yaml:4:11: at agent_memory.kinds[0]: expected fact or plan, got "fakt" (did you mean "fact"?)',
    ].join('\n'),
  });
  assert.match((await problemsOf(t, 'agent_memory: {}\n'))[0]!, /^1:1 agent_memory: expected one of host_id/);

  const { properties } = configSchema({ agent_memory: memory }) as { properties: Record<string, object> };
  assert.equal('agent_memory' in properties, true);
  assert.ok(configTemplate(composeConfig({ agent_memory: memory })).includes('\n  #max_notes: 10\n'));
});

test('a section that the reader could not hold to its schema is refused', () => {
  const cases: [sections: ConfigSections, message: RegExp][] = [
    [{ limits: memory }, /"limits" is part of handfast\.yaml already/],
    [{ agentMemory: memory }, /needs a snake_case key/],
    [{ memory: { type: 'string' } }, /needs "properties"/],
    [
      { memory: { type: 'object', properties: { a: { type: 'string', maxLength: 3 } as SettingSchema } } },
      /the schema of memory\.a uses "maxLength"/,
    ],
    [{ memory: { type: 'object', properties: { a: {} } } }, /the schema of memory\.a needs a "type" or an "enum"/],
  ];
  for (const [sections, message] of cases) {
    assert.throws(() => composeConfig(sections), { code: 'config_invalid', message });
  }
});

test('options of a plugin are read by the schema of its module, on the lines of the file', async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'notes.ts'), '');
  const plugin = async (yaml: string) => {
    writeFileSync(join(cwd, 'handfast.yaml'), yaml);
    return (await loadConfig('handfast.yaml', { env, cwd })).plugins[1]!;
  };
  const right = await plugin('plugins:\n  - tools\n  - use: ./notes.ts\n    options: { kinds: [plan] }\n');
  assert.deepEqual(readPluginOptions(right, memory), { maxNotes: 10, kinds: ['plan'] });
  const wrong = await plugin('plugins:\n  - tools\n  - use: ./notes.ts\n    options:\n      max_notes: many\n');
  assert.throws(() => readPluginOptions(wrong, memory), {
    code: 'config_invalid',
    message: 'handfast.yaml:5:18: at plugins[1].options.max_notes: expected a whole number from 1 to 100, got "many"',
  });
  const bare = await plugin('plugins:\n  - tools\n  - ./notes.ts\n');
  assert.throws(() => readPluginOptions(bare, { ...memory, required: ['file'] }), {
    message: 'handfast.yaml:3:5: at plugins[1].options.file: expected a path, got nothing',
  });
});
