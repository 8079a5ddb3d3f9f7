/** Output into a pipe: text of a peer, a file or a model acts on no terminal that shows it later; documents and program output stay exact. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { escapedJson } from '../../src/base/escape-controls.ts';
import { User } from './command.ts';

/** ESC, C1, an override of the direction of text, BEL, a tag, a carriage return that hides the text before it. */
const EVIL = '\u001b[2J\u009b31m\u202eevil\u2066\u0007\u{e0041}good\rbad\u0000';
const ACTS = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u2028\u2029\u{e0000}-\u{e007f}]/u;

const user = new User();
after(() => user.leave());

before(async () => {
  writeFileSync(
    join(user.cwd, 'evil.mjs'),
    `import { fail, tool, toolsPlugin } from 'handfast';
const evil = ${JSON.stringify(EVIL)};
export const plugin = toolsPlugin({ name: 'evil', tools: [
  tool({ name: 'says', description: 'Says ' + evil, run: () => ({ text: evil }) }),
  tool({ name: 'tells', description: 'Tells.', run: () => evil }),
  tool({ name: 'gives', description: 'Gives.', run: () => ({ [evil]: [evil], more: 1 }) }),
  tool({ name: 'refuses', description: 'Fails.', run: () => { throw fail('tool_error', evil); } }),
  tool({ name: 'logs', description: 'Logs.', async run(_args, { emit }) {
    await emit('status', { message: evil });
    await emit('progress', { pct: 1, message: evil });
    await emit('log', { level: 'stdout', message: evil });
    await emit('log', { level: 'stderr', message: evil });
    await emit('artifact', { name: evil });
    return { done: evil };
  } }),
] });
`,
  );
  const config = user.write(
    'handfast.yaml',
    `plugins: [{ use: tools, options: { shell: true } }, ./evil.mjs, { use: proc, options: { programs: ["${process.execPath}"] } }]\n`,
  );
  user.write('evil.txt', EVIL);
  await user.up(['--config', config]);
});

for (const words of [
  ['tools', 'ls'],
  ['tools', 'show', 'says'],
  ['tools', 'call', 'says'],
  ['tools', 'call', 'tells'],
  ['tools', 'call', 'gives'],
  ['tools', 'call', 'refuses'],
  ['tools', 'call', 'logs', '--stream'],
  ['tools', 'call', 'read_file', 'path=evil.txt'],
  ['tools', 'call', EVIL.replaceAll('\0', '')],
  ['call', 'tools', 'list'],
  ['session', 'send', 'new', `say "${EVIL.replaceAll('\0', '')}"`, '--backend', 'rehearsal'],
  ['session', 'ls'],
  ['session', 'show', 'last'],
  ['session', 'tail', 'last'],
  ['session', 'export', 'last'],
  ['tail'],
] as const) {
  test(`${words
    .slice(0, 3)
    .join(' ')
    .replaceAll(/[^\w ]/g, '')} into a pipe`, async () => {
    const { stdout, stderr } = await user.run(words);
    assert.doesNotMatch(stdout, ACTS);
    assert.doesNotMatch(stderr, ACTS);
    const json = await user.run([...words, '--json']);
    assert.doesNotMatch(json.stdout, ACTS);
    assert.doesNotMatch(json.stderr, ACTS);
    for (const line of json.stdout.split('\n').filter((text) => text !== '')) JSON.parse(line);
  });
}

test('--json gives the exact characters, in escapes of JSON', async () => {
  const { stdout } = await user.run(['tools', 'call', 'says', '--json']);
  assert.equal(JSON.parse(stdout).data.text, EVIL);
  assert.deepEqual(JSON.parse(escapedJson({ [EVIL]: [EVIL, '👩‍👩‍👧 ❤️'] })), { [EVIL]: [EVIL, '👩‍👩‍👧 ❤️'] });
});

test('the output of a program comes through byte for byte', async () => {
  const script = `process.stdout.write(${JSON.stringify(EVIL)}); process.stderr.write(${JSON.stringify(EVIL)})`;
  const { stdout, stderr, code } = await user.run(['proc', 'run', '--', process.execPath, '-e', script]);
  assert.equal(code, 0, stderr);
  assert.equal(stdout, EVIL);
  assert.ok(stderr.includes(EVIL));
});
