/**
 * The reader of configuration files, checked against its schemas with thousands of damaged files: for any content of a
 * file, it is read or its problems are reported, and the published JSON Schema allows the read settings.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { fleet } from '../../src/config/fleet.generated.ts';
import { handfast } from '../../src/config/handfast.generated.ts';
import { nodeOf, type Reading, readSetting } from '../../src/config/reader.ts';
import type { SettingSchema } from '../../src/config/setting.ts';
import { taskBatch } from '../../src/config/task-batch.generated.ts';
import { configTemplate } from '../../src/config/template.ts';

/** Reads a plain value by a schema; returns the problems as `path: message`. */
function read(schema: SettingSchema, value: unknown): { readonly settings: unknown; readonly problems: string[] } {
  const problems: string[] = [];
  const problem: Reading['problem'] = (_at, path, message) => problems.push(`${path}: ${message}`);
  const settings = readSetting(schema, nodeOf(value), '', { problem, nodes: new Map(), folder: '/etc', secret: false });
  return { settings, problems };
}

const object = (properties: SettingSchema['properties'], more: SettingSchema = {}): SettingSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties ?? {}),
  ...more,
});

test('members that need or exclude each other are reported at their group', () => {
  const a: SettingSchema = { type: 'string' };
  const list: SettingSchema = { type: 'array', items: a };
  const group = (rules: SettingSchema) => object({ a, b: a, c: a, d: list, e: list }, { required: [], ...rules });
  const cases: [rules: SettingSchema, value: object, ...problems: string[]][] = [
    [{ needsOne: ['a', 'b'] }, { c: 'x' }, ': expected a or b, got neither'],
    [{ needsOne: ['a', 'b', 'c'] }, {}, ': expected a, b or c, got none of them'],
    [{ needsOne: ['a', 'b'] }, { b: 'x' }],
    [{ needsOne: ['d', 'e'] }, { d: null }, ': expected d or e, got neither'],
    [{ notBoth: ['a', 'b'] }, { a: 'x', b: 'x' }, ': expected a or b, got both'],
    [{ notBoth: ['a', 'b'] }, {}],
    [{ either: ['a', 'b'] }, {}, ': expected a or b, and not both'],
    [{ either: ['a', 'b'] }, { a: 'x', b: 'x' }, ': expected a or b, and not both'],
    [{ either: ['a', 'b'] }, { a: 'x' }],
    [{ together: ['a', 'b'] }, { a: 'x' }, ': expected a and b together, got one of them'],
    [{ together: ['a', 'b'] }, { a: 'x', b: 'x' }],
  ];
  for (const [rules, value, ...problems] of cases) {
    assert.deepEqual(read(group(rules), value).problems, problems, JSON.stringify([rules, value]));
  }
});

test('paths and programs start at the folder of the file; the name of a program stays a name', () => {
  const schema = object({
    file: { type: 'string', format: 'path' },
    command: { type: 'string', format: 'program' },
    other: { type: 'string', format: 'program' },
  });
  const { settings } = read(schema, { file: 'a/b', command: './run', other: 'git' });
  assert.deepEqual(settings, { file: '/etc/a/b', command: '/etc/run', other: 'git' });
});

test('a default stands nowhere in the file', () => {
  const schema = object({
    names: { type: 'array', items: { type: 'string' }, default: ['a'] },
    other: { enum: ['x'] },
  });
  const nodes: Reading['nodes'] = new Map();
  const settings = readSetting(schema, nodeOf({ other: 'x' }), '', {
    problem: () => assert.fail('no problem is expected'),
    nodes,
    folder: '/',
    secret: false,
  });
  assert.deepEqual(settings, { names: ['a'], other: 'x' });
  assert.deepEqual([...nodes.keys()], ['', 'other']);
});

test('numbers without bounds, and with one, are named by them', () => {
  const schema = object({
    whole: { type: 'integer' },
    part: { type: 'number', minimum: 0 },
    most: { type: 'number', maximum: 1 },
  });
  assert.deepEqual(read(schema, { whole: 1.5, part: -0.5, most: 'x' }).problems, [
    'whole: expected a whole number, got the number 1.5',
    'part: expected a number of at least 0, got the number -0.5',
    'most: expected a number of at most 1, got "x"',
  ]);
  assert.deepEqual(read(schema, { whole: 1, part: 0.5, most: 0.25 }).settings, { whole: 1, part: 0.5, most: 0.25 });
});

const everySetting = configTemplate()
  .replace(/^plugins:\n(?: {2}- \w+\n)+/m, '')
  .replaceAll(/^( *)#(?=[^ #\n]| {2})/gm, '$1');

const everyFleetSetting = `
bus: [nats://127.0.0.1:4222, tls://b:4222]
nats: { user: fleet, password_file: ./pw, replicas: 3, tls: { ca_file: ca.pem, cert_file: c.pem, key_file: /k.pem } }
labels: { a: 1, b: [x, { c: true }] }
workers:
  - id: claude-1
    executor: claude
    pools: p
    mcp_servers: [{ name: m, command: ctx, args: [serve], env: { A: "1" }, headers_env: { I: Y } }]
    receiver: { token_env: T, callback: { url: 'http://x', token_file: f }, senders: [{ name: lead, token_env: L }] }
    a2a: { host: '::1', token_file: t, partial_state: completed }
  - { id: c, executor: { kind: codex, sandbox: read-only, timeout_s: 3 }, repo: . }
  - { id: f, executor: { kind: acp, command: x, mode: plan, mcp_servers: [{ name: m, url: 'http://m', type: sse }] } }
peers: [{ id: p1, url: 'http://p', kind: a2a, token_env: X }]
routing: { tiers: { gemini-flash: 1 }, hooks: [{ when: 'true', then: prefer, score: 10 }], unverified: never }
blocked_policy: { table: { dirty_repo: [retry, alert] }, backoff_s: [1, 2] }
`;

const everyTaskSetting = `
name: b
tasks:
  - { id: build, brief: build it, budget: 5000, deadline: 30m, require_mcp: m, access: read, worktree: true, worker: w }
  - { brief: ship it, after: [build], priority: high, reply: json, answer_schema: { type: object } }
`;

const DAMAGE: readonly unknown[] = [
  null,
  3,
  -1,
  0.5,
  1e12,
  '',
  'x',
  'sqlit',
  'http://x',
  true,
  [],
  ['a', 'a'],
  [[1]],
  {},
  { a: 1 },
  { kind: 'claude' },
  'a'.repeat(60),
];

/** Returns every place in a value, as the keys that lead to it. */
function placesOf(value: unknown, at: readonly string[] = []): (readonly string[])[] {
  const inside = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [at, ...inside.flatMap(([key, each]) => placesOf(each, [...at, key]))];
}

/** Yields the value with one place removed, renamed or replaced; every third kind, another one at each place. */
function* damaged(source: string): Generator<unknown> {
  const whole: unknown = parse(source);
  let count = 0;
  for (const place of placesOf(whole).slice(1)) {
    for (const how of ['remove', 'rename', ...DAMAGE]) {
      if (++count % 3 !== 0) continue;
      const value = structuredClone(whole);
      let parent = value as Record<string, unknown>;
      for (const key of place.slice(0, -1)) parent = parent[key] as Record<string, unknown>;
      const key = place.at(-1) as string;
      if (how === 'rename' && !Array.isArray(parent)) parent[`${key}x`] = parent[key];
      if (Array.isArray(parent) && (how === 'remove' || how === 'rename')) parent.splice(Number(key), 1);
      else if (how === 'remove' || how === 'rename') delete parent[key];
      else parent[key] = structuredClone(how);
      yield value;
    }
  }
}

for (const [name, schema, source] of [
  ['config', handfast, everySetting],
  ['fleet-config', fleet, everyFleetSetting],
  ['task-batch', taskBatch, everyTaskSetting],
] as const) {
  test(`anything wrong in one place of a file (${name}) is reported, and what is read is valid JSON Schema`, () => {
    const published = JSON.parse(readFileSync(new URL(`../../schema/${name}.json`, import.meta.url), 'utf8'));
    const validate = new Ajv2020({ strict: false }).compile(published);
    let valid = 0;
    let wrong = 0;
    for (const value of damaged(source)) {
      const { problems, settings } = read(schema, value);
      if (problems.length === 0) {
        valid++;
        assert.ok(validate(value), `${JSON.stringify(validate.errors?.[0])} in ${JSON.stringify(value)}`);
        assert.ok(Object.isFrozen(settings));
      } else {
        wrong++;
        for (const problem of problems) assert.match(problem, /^[^\n]*: expected [^\n]+$/);
      }
    }
    assert.ok(valid > 5 && wrong > 50, `${valid} valid, ${wrong} wrong`);
  });
}
