/**
 * Checks the pages about fleets: their programs run and print the shown output, their configuration files load, and the
 * first session of `docs/fleet.md` is the output of its commands.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { inspect } from 'node:util';
import { loadFleetConfig, loadWorkerConfig } from '../src/config/fleet-config.ts';
import { loadTaskBatch } from '../src/config/task-batch.ts';
import { User } from './cli/command.ts';
import { newRepository } from './cli/fleet-bench.ts';
import { root } from './rules/scan.ts';
import { regionOf } from './support/regions.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** Returns the text of each fenced block of a language. */
const blocks = (page: string, language: string): string[] =>
  [...read(page).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map((match) => match[1] as string);

const user = new User();
after(() => user.leave());

test('every configuration file on the pages about fleets loads', async () => {
  for (const folder of ['app', 'app-2']) mkdirSync(join(user.folder, folder));
  mkdirSync(join(user.cwd, 'app'));
  const worker = 'id: w\nexecutor: rehearsal\nrepo: app\n';
  const fleet = 'name: fleet\n';
  const env = { HANDFAST_HOME: user.home };
  let loaded = 0;
  for (const page of ['fleet', 'fleet-executors', 'fleet-phases', 'a2a', 'nats']) {
    for (const block of blocks(`docs/${page}.md`, 'yaml')) {
      const first = /^(?!#)\w+/m.exec(block)?.[0] as string;
      if (first === 'executor')
        await loadWorkerConfig(user.write('worker.yaml', `id: w\nrepo: app\n${block}`), { env });
      else if (first === 'tasks')
        assert.equal((await loadTaskBatch(user.write('tasks.yaml', block), Date.now())).length, 2);
      else if (first === 'receiver') await loadWorkerConfig(user.write('worker.yaml', worker + block), { env });
      else {
        // Workers of a page that shows only its new settings.
        const whole = block.replace(/^( +)(a2a: )/m, '$1repo: app\n$1$2');
        await loadFleetConfig(user.write('fleet.yaml', first === 'name' ? whole : fleet + whole), { env });
      }
      loaded += 1;
    }
  }
  assert.ok(loaded >= 11, `${loaded} files`);
});

test('the programs on the pages about fleets run, and print what the pages show', () => {
  assert.equal(blocks('docs/fleet.md', 'ts').join(), `${regionOf(read('examples/fleet.ts'), 'fleet')}\n`);

  const programs = blocks('docs/fleet-phases.md', 'ts');
  assert.ok(programs.length >= 6);
  const shown = /emitInline.*\n((?:\/\/.*\n)+)/.exec(programs[0] as string)?.[1]?.replaceAll(/^\/\/ ?/gm, '');
  const step = /\/\/ (\{ action: .*\})\n$/.exec(programs.at(-1) as string)?.[1];
  const imports: string[] = [];
  const nested = programs.reduceRight(
    (inner, program) =>
      `{\n${program.replaceAll(/^import .*$/gm, (line) => `${imports.push(line) && ''}`)}\n${inner}\n}`,
    'report({ hints, brief, found, prompts, sent, problem, checked });',
  );
  const prelude = `
    const [prompts, sent, profiles, authenticatedPeer] = [[], [], new Map(), 'peer'];
    const [reply, schema, facts] = ['A reply.', { type: 'integer' }, { executorPresent: false }];
    const runAgent = async (prompt) => ({ text: 'Nothing to report.', exitCode: prompts.push(prompt) && 0 });
    const send = (message) => sent.push(message);
    const wireText = JSON.stringify({ type: 'TASK_DISPATCH', protocol_version: '2.0', task: { task_id: 't-1' } });
    const report = (values) => console.log(JSON.stringify(values));`;
  const source = `${imports.join('\n')}\n${prelude}\n${nested}`
    .replace('const text = emitInline', 'const text = globalThis.text = emitInline')
    .replace(/^blockedStep\(/m, 'globalThis.step = blockedStep(')
    .replace('report({', 'report({ text: globalThis.text, step: globalThis.step,');
  const words = ['-C', 'handfast-source', '--input-type=module-typescript', '-e', source];
  const { stdout, stderr } = spawnSync(process.execPath, words, { cwd: root, encoding: 'utf8' });
  assert.notEqual(stdout, '', stderr);
  const values = JSON.parse(stdout);
  assert.equal(`${values.text}\n`, shown);
  assert.deepEqual(values.hints, { priority: 'high', token_budget: 4000, required_mcp: ['context_mode'] });
  assert.equal(values.brief, 'Refactor the auth module.');
  assert.equal(values.found, false);
  // The turn and its repair turn; without a result no answer is checked.
  assert.equal(values.prompts.length, 2);
  assert.match(values.prompts[1], /there was no TASK_RESULT/);
  assert.deepEqual([values.problem, values.checked.ok], [null, true]);
  assert.deepEqual([values.sent[0].task_id, values.sent[0].status], ['t-1', 'blocked']);
  assert.equal(inspect(values.step), step);
});

test('the first session of docs/fleet.md is what its commands print', async () => {
  const [file = ''] = blocks('docs/fleet.md', 'yaml');
  const [session = ''] = blocks('docs/fleet.md', 'console');
  const user = new User();
  after(() => user.leave());
  newRepository(join(user.cwd, 'app'));
  user.write('fleet.yaml', file.replace('name: trial', 'name: trial\nlisten: http://127.0.0.1:0'));
  const up = user.start(['fleet', 'up', 'fleet.yaml']);
  await up.says('is up');
  const [typed = '', ...lines] = (session.split('$ handfast fleet up fleet.yaml\n$ handfast ')[1] as string).split(
    '\n',
  );
  const words = [...typed.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? (word as string));
  const { code, stdout, stderr } = await user.run(words);
  assert.equal(code, 0, stderr);
  const plain = (text: string): string =>
    text
      .replaceAll(/\d\d:\d\d:\d\dZ/g, 'TIME')
      .replaceAll(/^task \S+$/gm, 'task ID')
      .replaceAll(/\d+ (of|tokens)/g, 'N $1')
      .trim();
  assert.equal(plain(stderr + stdout), plain(lines.join('\n')));
});
