/** Skills over the real host: lists, arguments, tools from inside, events, versions, reload, pins, rights, cancels. */
import assert from 'node:assert/strict';
import { chmodSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Runs } from '../../../src/capabilities/skill/runs.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, errorOf, put, skillHost, until, writeSkill } from './support.ts';

const SUM = `import { twice } from './lib/twice.js';
export default async ({ a, b = 1 }, skill) => {
  console.log('adding', { a, b });
  await skill.progress(50, 'half');
  const { sum } = await skill.tool('add', { a, b });
  return { sum, twice: twice(sum), note: skill.resource('note.txt') };
};`;
const SUM_FRONT = `version: "1.2.0"
allowed-tools: add
tags: [maths]
category: sums
parameters: { type: object, properties: { a: { type: number }, b: { type: number, default: 2 } }, required: [a], additionalProperties: false }`;

function writeSum(root: string): void {
  const folder = writeSkill(root, 'sum', { front: SUM_FRONT, code: SUM });
  put(join(folder, 'lib/twice.js'), 'export const twice = (x) => 2 * x;');
  put(join(folder, 'note.txt'), 'a note');
}

test('a skill runs with arguments, calls a granted tool and sends events', { timeout: 60_000 }, async (t) => {
  const site = await skillHost(t);
  writeSum(site.root);
  const agent = await agentOf(t, site);
  const [listed] = await agent.skill.list();
  assert.deepEqual(
    [listed?.name, listed?.version, listed?.tools, listed?.arguments, listed?.status],
    ['sum', '1.2.0', ['add'], ['a', 'b'], 'Published'],
  );
  const call = agent.skill.call<{ sum: number }>('sum', { a: 40 });
  const events: unknown[] = [];
  for await (const { kind, data, seq } of call) events.push([seq, kind, data]);
  const { data, tier, skill_version, truncated } = await call;
  assert.deepEqual(data, { sum: 42, twice: 84, note: 'a note' });
  assert.deepEqual([tier, skill_version, truncated], ['quickjs', '1.2.0', false]);
  assert.deepEqual(events, [
    [0, 'skill.started', { skill: 'sum', version: '1.2.0' }],
    [1, 'log', { level: 'info', message: 'adding {"a":40,"b":2}' }],
    [2, 'progress', { pct: 50, message: 'half' }],
    [3, 'tool.started', { tool: 'add' }],
    [4, 'tool.completed', { tool: 'add' }],
    [5, 'skill.completed', { skill: 'sum' }],
  ]);
  assert.deepEqual(site.called, ['add by local']);
});

test('arguments, results and tools are held to what the skill says', { timeout: 60_000 }, async (t) => {
  const site = await skillHost(t);
  writeSum(site.root);
  writeSkill(site.root, 'thief', {
    front: 'allowed-tools: "add s*w"',
    code: `export default async ({}, skill) => {
      try { return await skill.tool('secret'); } catch (error) { return [error.code, error.message]; }
    };`,
  });
  writeSkill(site.root, 'liar', { front: 'result: { type: number }', code: `export default () => 'no number';` });
  const agent = await agentOf(t, site);
  const missing = await errorOf(agent.skill.call('sum'));
  assert.deepEqual([missing.code, missing.detail.path], ['schema_violation', '/a']);
  assert.equal((await errorOf(agent.skill.call('sum', { a: 1, c: 1 }))).code, 'schema_violation');
  const { data } = await agent.skill.call('thief');
  assert.deepEqual(data, ['tool_denied', 'allowed-tools of this skill does not name "secret"']);
  assert.deepEqual(site.called, []);
  assert.equal((await errorOf(agent.skill.call('liar'))).code, 'schema_violation');
  const thrown = await errorOf(agent.skill.call('sum', { a: 1, b: null }));
  assert.equal(thrown.code, 'schema_violation');
});

test('a tool is called with the rights of the caller, and ends with the run', { timeout: 60_000 }, async (t) => {
  const site = await skillHost(t, {
    principals: [
      { name: 'root', admin: true },
      { name: 'guest', capabilities: ['skill', 'tools'], tools: { allow: ['slow'] } },
      { name: 'narrow', capabilities: ['skill'], grants: { skill: { skills: ['s*'], max_runs: 1 } } },
    ],
  });
  writeSum(site.root);
  writeSkill(site.root, 'slowly', {
    front: 'allowed-tools: [slow]',
    code: `export default async (_, skill) => skill.tool('slow');`,
  });
  writeSkill(site.root, 'leaves', {
    front: 'allowed-tools: [slow]',
    code: `export default async (_, skill) => { skill.tool('slow'); await skill.log('on its way'); return 1; };`,
  });
  writeSkill(site.root, 'other', { code: 'export default () => 1;' });
  const guest = await agentOf(t, site, 'guest');
  const denied = await errorOf(guest.skill.call('sum', { a: 1 }));
  assert.deepEqual([denied.code, site.called], ['skill_error', []]);
  assert.match(denied.message, /the tool "add" is not allowed here/);
  const root = await agentOf(t, site, 'root');
  await root.skill.call('sum', { a: 1 });
  assert.deepEqual(site.called.splice(0), ['add by root']);
  // A call that was not awaited ends with its run.
  await guest.skill.call('leaves');
  await until(() => site.called.includes('slow ended'));
  site.called.splice(0);
  // A deadline, and a cancel.
  assert.equal((await errorOf(guest.skill.call('slowly', {}, { timeoutMs: 8_000 }))).code, 'timeout');
  await until(() => site.called.includes('slow ended'));
  site.called.splice(0);
  const cancelled = new AbortController();
  const call = guest.skill.call('slowly', {}, { signal: cancelled.signal });
  await until(() => site.called.includes('slow'));
  cancelled.abort();
  assert.equal((await errorOf(call)).code, 'cancelled');
  await until(() => site.called.includes('slow ended'));
  // A finer grant: a skill that it does not name is unknown.
  const narrow = await agentOf(t, site, 'narrow');
  assert.deepEqual(
    (await narrow.skill.list()).map(({ name }) => name),
    ['slowly', 'sum'],
  );
  assert.equal((await errorOf(narrow.skill.call('other'))).code, 'unknown_skill');
  const hidden = await errorOf(narrow.skill.describe('other'));
  assert.deepEqual([hidden.code, hidden.detail], ['unknown_skill', { row: 'not_found', name: 'other' }]);
  assert.equal(hidden.message, 'there is no skill "other" in the skill folders of this host (1)');
  // One of the skills that it may use has a similar name.
  assert.match((await errorOf(narrow.skill.call('slowyl'))).message, /; did you mean "slowly"\?$/);
  // Administrators see the searched folders.
  const lost = await errorOf(root.skill.call('othr'));
  assert.equal(lost.message, `there is no skill "othr" in ${site.root}; did you mean "other"?`);
  assert.deepEqual([lost.detail.roots, lost.detail.did_you_mean], [[site.root], 'other']);
  assert.deepEqual(await narrow.skill.problems(), []);
});

test('a text skill returns its instructions, with what has room', { timeout: 60_000 }, async (t) => {
  const site = await skillHost(t, { skill: { maxContextChars: 2000 } });
  const folder = writeSkill(site.root, 'style', { text: 'Read z-rules.md first.' });
  put(join(folder, 'a-large.md'), 'x'.repeat(1990));
  put(join(folder, 'logo.png'), Uint8Array.of(0x89, 0x50, 0xff));
  put(join(folder, 'z-rules.md'), 'Be brief.');
  const agent = await agentOf(t, site);
  const { data, truncated, left_out, tier } = await agent.skill.call('style');
  assert.deepEqual(data, {
    instructions: 'Read z-rules.md first.',
    resources: [{ path: 'z-rules.md', text: 'Be brief.' }],
  });
  assert.deepEqual([truncated, tier], [true, undefined]);
  assert.deepEqual(left_out, [
    { path: 'a-large.md', bytes: 1990, reason: 'size' },
    { path: 'logo.png', bytes: 3, reason: 'binary' },
  ]);
});

test('versions, roots and their order', { timeout: 60_000 }, async (t) => {
  const [first, second] = [temporaryFolder(t), temporaryFolder(t)];
  const code = (text: string) => `export default () => '${text}';`;
  writeSkill(first, 'greet', { front: 'version: "1.9.0"', code: code('1.9.0') });
  writeSkill(first, 'greet', { front: 'version: "1.10.0"', folder: 'greet@1.10.0', code: code('1.10.0') });
  writeSkill(second, 'greet', { front: 'version: "2.0.0"', code: code('2.0.0') });
  writeSkill(second, 'greet', { front: 'version: "1.9.0"', folder: 'greet/1.9.0', code: code('shadowed') });
  const site = await skillHost(t, { skill: { roots: [first, second] } });
  const agent = await agentOf(t, site);
  const { versions, skill } = await agent.skill.describe('greet');
  assert.deepEqual([versions, skill.version], [['2.0.0', '1.10.0', '1.9.0'], '1.10.0']);
  assert.equal((await agent.skill.call('greet')).data, '1.10.0');
  assert.equal((await agent.skill.call('greet', {}, { version: '2.0.0' })).data, '2.0.0');
  assert.equal((await agent.skill.call('greet', {}, { version: '1.9.0' })).data, '1.9.0');
  const unknown = await errorOf(agent.skill.call('greet', {}, { version: '3' }));
  assert.deepEqual([unknown.code, unknown.detail.versions], ['unknown_skill', ['1.10.0', '2.0.0', '1.9.0']]);
  const [problem] = await agent.skill.problems();
  assert.match(problem?.message ?? '', /has greet 1\.9\.0 already/);
});

test('a changed skill runs changed, also while it runs; a pinned or named digest refuses it', {
  timeout: 60_000,
}, async (t) => {
  const site = await skillHost(t);
  const write = (text: string) =>
    writeSkill(site.root, 'live', {
      front: 'allowed-tools: add',
      code: `export default async (_, skill) => { await skill.log('runs'); for (let i = 0; i < 50; i++) await skill.tool('add', { a: 1, b: i }); return '${text}'; };`,
    });
  write('old');
  const agent = await agentOf(t, site);
  const { skill } = await agent.skill.describe('live');
  const digest = String(skill.metadata?.digest);
  const call = agent.skill.call('live');
  await until(() => site.called.length > 0);
  write('new');
  assert.equal((await call).data, 'old');
  assert.equal((await agent.skill.call('live')).data, 'new');
  assert.equal((await errorOf(agent.skill.call('live', {}, { digest }))).code, 'skill.changed');
  rmSync(join(site.root, 'live'), { recursive: true });
  assert.equal((await errorOf(agent.skill.call('live'))).code, 'unknown_skill');

  write('old');
  const pinned = await skillHost(t, { root: site.root, skill: { roots: [site.root], pins: { live: digest } } });
  const other = await agentOf(t, pinned);
  assert.equal((await other.skill.call('live')).data, 'old');
  write('new');
  const changed = await errorOf(other.skill.call('live'));
  assert.equal(changed.code, 'skill.changed');
  assert.match(changed.message, /not those that the configuration pins/);
  assert.equal((await other.skill.list())[0]?.status, 'Blocked');
});

test('what is wrong with a folder is listed, and hides no other', { timeout: 60_000 }, async (t) => {
  const site = await skillHost(t);
  const { root } = site;
  const outside = temporaryFolder(t);
  writeSkill(root, 'good', { code: 'export default () => 1;' });
  writeSkill(outside, 'stranger');
  symlinkSync(join(outside, 'stranger'), join(root, 'stranger'));
  put(join(root, 'plain/SKILL.md'), 'no front matter');
  put(join(root, 'giant/SKILL.md'), `---\nname: giant\ndescription: x\n---\n${'x'.repeat(300_000)}`);
  put(join(root, 'latin/SKILL.md'), Buffer.from('---\nname: latin\ndescription: \xe9t\xe9\n---\n', 'latin1'));
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefgh'].map((name, at) => `${name}: &${name} [${`*${'abcdefgh'[at]},`.repeat(9)}]`).join('\n')}`;
  put(join(root, 'bomb/SKILL.md'), `---\nname: bomb\ndescription: x\n${bomb}\n---\n`);
  put(join(root, 'deep/SKILL.md'), `---\nname: deep\ndescription: x\nx: ${'['.repeat(4_000)}\n---\n`);
  put(join(root, 'signs/SKILL.md'), `---\nname: signs\ndescription: x\nx: [${'a,'.repeat(10_000)}a]\n---\n`);
  writeSkill(root, 'number', { front: 'version: 1.10' });
  writeSkill(root, 'misnamed', { folder: 'another' });
  writeSkill(root, 'broken', { front: 'parameters: { type: strong }' });
  writeSkill(root, 'absent', { front: 'entry: gone.js' });
  writeSkill(root, 'upward', { front: 'entry: ../good/main.js' });
  symlinkSync('/etc/passwd', join(writeSkill(root, 'linked'), 'data.txt'));
  chmodSync(join(writeSkill(root, 'open'), 'SKILL.md'), 0o666);
  const agent = await agentOf(t, site);
  assert.deepEqual(
    (await agent.skill.list()).map(({ name }) => name),
    ['good'],
  );
  const problems = Object.fromEntries(
    (await agent.skill.problems()).map(({ path, message }) => [path.slice(root.length + 1).split('/')[0], message]),
  );
  const expected: Readonly<Record<string, RegExp>> = {
    absent: /^entry: there is no file gone\.js$/,
    another: /^its folder must be misnamed/,
    bomb: /at most 10000 values/,
    broken: /^parameters: /,
    deep: /^line 4: expected valid YAML/,
    giant: /^is larger than 262144 bytes$/,
    latin: /^is no valid UTF-8$/,
    linked: /^data\.txt is a link$/,
    number: /^version: write it in quotes/,
    open: /^SKILL\.md can be changed by every user/,
    plain: /^has no front matter/,
    signs: /^has a front matter of more than 5000 lines/,
    stranger: /^leads out of/,
    upward: /^entry must match pattern/,
  };
  assert.deepEqual(Object.keys(problems).sort(), Object.keys(expected));
  for (const [name, pattern] of Object.entries(expected)) assert.match(problems[name] ?? '', pattern, name);
  chmodSync(root, 0o777);
  assert.deepEqual(await agent.skill.list(), []);
  assert.match((await agent.skill.problems())[0]?.message ?? '', /^the root can be changed by every user/);
});

test('a sandbox that did not work is probed again once for all calls', async (t) => {
  let probes = 0;
  const sandbox = {
    tier: 'process',
    probe: () => {
      probes += 1;
      return Promise.reject(new Error('no descriptor is left'));
    },
  } as unknown as ConstructorParameters<typeof Runs>[0];
  const runs = new Runs(sandbox, {} as ConstructorParameters<typeof Runs>[1], false, () => {});
  const ask = () => Promise.allSettled([runs.ready(), runs.ready(), runs.ready()]);
  await ask();
  await ask();
  assert.equal(probes, 1);
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 31_000);
  await ask();
  assert.equal(probes, 2);
});

test('schemas of a skill that take for ever fail its own calls, in their time, and hold up no other skill', {
  timeout: 120_000,
}, async (t) => {
  const site = await skillHost(t);
  const slow = "{ type: object, properties: { a: { type: string, pattern: '^(a+)+$' } } }";
  const text = `'a'.repeat(40) + '!'`;
  writeSkill(site.root, 'slow-result', { front: `result: ${slow}`, code: `export default () => ({ a: ${text} });` });
  writeSkill(site.root, 'slow-arguments', { front: `parameters: ${slow}`, code: 'export default () => 1;' });
  writeSkill(site.root, 'quick', { front: 'result: { type: number }', code: 'export default () => 1;' });
  for (let at = 0; at < 100; at++) {
    const properties = Array.from({ length: 40 }, (_, i) => `p${i}x${at}: { type: string }`).join(', ');
    writeSkill(site.root, `many-${at}`, { front: `parameters: { type: object, properties: { ${properties} } }` });
  }
  const agent = await agentOf(t, site);
  assert.equal((await agent.skill.list()).length, 103);
  let turns = 0;
  const counting = setInterval(() => {
    turns += 1;
  }, 5);
  for (const [name, args] of [
    ['slow-result', {}],
    ['slow-arguments', { a: `${'a'.repeat(40)}!` }],
  ] as const) {
    turns = 0;
    const { code, detail } = await errorOf(agent.skill.call(name, args));
    assert.deepEqual([code, detail.reason], ['schema_violation', 'time'], name);
    // A check in this thread lets no timer run.
    assert.ok(turns > 5, `${name}: ${turns}`);
  }
  clearInterval(counting);
  assert.equal((await agent.skill.call('quick')).data, 1);
});
