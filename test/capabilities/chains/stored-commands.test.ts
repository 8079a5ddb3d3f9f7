/** `handfast chain put`, `ls`, `get`, `rm`, and `run` of a stored chain: against a host in this process. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { StoredChain } from '../../../src/capabilities/chains/chains.schema.ts';
import { commands } from '../../../src/capabilities/chains/commands.ts';
import { loadChainFile } from '../../../src/capabilities/chains/files/chain-file.ts';
import type { ChainsOptions } from '../../../src/capabilities/chains/plugin.ts';
import type { ChainNode } from '../../../src/capability.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, call, chainHost } from './support.ts';

interface Printed {
  code: number | undefined;
  lines: string[];
  notes: string[];
  documents: unknown[];
}

/** Types commands as a user does, by an agent of a host; with a folder for files. */
async function user(
  t: TestContext,
  { chains, principals, as }: { chains?: ChainsOptions; principals?: readonly Principal[]; as?: string } = {},
) {
  const { host, called } = await chainHost(t, { ...(chains && { chains }), ...(principals && { principals }) });
  const agent = await agentOf(t, host, 'ana', as);
  const folder = temporaryFolder(t);
  const type = async (
    name: string,
    word: string | undefined,
    options: Record<string, unknown> = {},
  ): Promise<Printed> => {
    const printed: Printed = { code: undefined, lines: [], notes: [], documents: [] };
    const { json = false, ...others } = options;
    const terminal = {
      json: json === true,
      line: (text = '') => void printed.lines.push(text),
      note: (text: string) => void printed.notes.push(text),
      document: (value: unknown) => void printed.documents.push(value),
      raw: () => {},
      rawError: () => {},
      exact: () => {},
      exactError: () => {},
      table: (_: readonly string[], rows: readonly (readonly string[])[]) =>
        void printed.lines.push(...rows.map((row) => row[0] ?? '')),
    };
    const command = commands.find(({ usage }) => usage.split(' ')[0] === name);
    assert.ok(command, name);
    printed.code = await command.run({
      agent,
      args: [word],
      options: others,
      terminal,
      signal: t.signal,
      openAgent: async () => agent,
      openFleet: () => assert.fail('no fleet'),
    });
    return printed;
  };
  const write = (name: string, text: string): string => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return file;
  };
  return { agent, called, folder, type, write };
}

const nightly = (text: string) =>
  `description: Every night\nnodes: [{ node_id: a, kind: tool, name: echo, input: { name: ${text} } }]\n`;

test('a chain file is stored in versions, listed, run by name and version, and removed', async (t) => {
  const { called, type, write } = await user(t);
  const file = write('nightly.yaml', nightly('one'));
  assert.deepEqual((await type('put', file)).lines, ['nightly@1']);
  const same = await type('put', file, { json: true });
  assert.deepEqual(same.documents, [{ name: 'nightly', version: 1, created: false }]);
  assert.equal(same.notes.length, 1);
  write('nightly.yaml', nightly('two'));
  const second = await type('put', file, { json: true, ifVersion: '1' });
  assert.deepEqual(second.documents, [{ name: 'nightly', version: 2, created: true }]);
  write('nightly.yaml', nightly('three'));
  await assert.rejects(type('put', file, { ifVersion: '1' }), { code: 'chains.conflict' });
  await type('put', write('other.yaml', `name: daily\n${nightly('daily')}`));

  assert.deepEqual((await type('ls', undefined)).lines, ['daily@1', 'nightly@2']);
  assert.deepEqual((await type('ls', 'nightly')).lines, ['nightly@2', 'nightly@1']);
  await assert.rejects(type('ls', 'weekly'), { code: 'not_found' });

  for (const word of ['nightly', 'nightly@1', 'nightly@2', 'daily']) assert.equal((await type('run', word)).code, 0);
  assert.deepEqual(called, ['two', 'one', 'two', 'daily']);
  const all = (await type('runs', undefined)).lines;
  assert.equal(all.length, 4);
  const [newest = ''] = all;
  const two = await type('runs', undefined, { limit: '2' });
  assert.deepEqual([two.lines, two.notes], [all.slice(0, 2), ['the newest 2; there are more: --limit']]);
  assert.deepEqual((await type('runs', undefined, { limit: '4' })).notes, []);
  const cut = await type('runs', undefined, { limit: '3', json: true });
  assert.deepEqual([cut.documents.map((runs) => (runs as unknown[]).length), cut.notes], [[3], []]);
  await assert.rejects(type('runs', undefined, { limit: '0' }), { code: 'usage' });
  for (const word of [newest, newest.slice(0, 13), 'last']) {
    const shown = await type('status', word);
    assert.equal(shown.lines.at(-1), `run ${newest}: done, 1 of 1 node ended`);
  }
  await assert.rejects(type('status', 'nothing'), { code: 'chains.unknown_run', message: /see: handfast chain runs$/ });
  await assert.rejects(type('cancel', ''), { code: 'usage' });

  assert.deepEqual((await type('rm', 'nightly@1')).lines, ['removed 1 version of nightly']);
  await assert.rejects(type('run', 'nightly@1'), { code: 'chains.unknown_chain' });
  await assert.rejects(type('rm', 'nightly@1'), { code: 'chains.unknown_chain' });
  assert.deepEqual((await type('rm', 'nightly', { json: true })).documents, [{ versions: 1 }]);
  assert.deepEqual((await type('ls', undefined)).lines, ['daily@1']);
});

test('the word of run says whether it is a file, and the error of one that is neither names both', async (t) => {
  const { called, folder, type, write } = await user(t);
  const file = write('nightly.yaml', nightly('file'));
  await type('put', write('stored.yaml', `name: nightly\n${nightly('stored')}`));
  const without = write('nightly', nightly('no ending'));
  for (const word of [file, 'nightly', without]) assert.equal((await type('run', word)).code, 0);
  assert.deepEqual(called, ['file', 'stored', 'no ending']);
  const both = /"handfast chain ls".*\.yaml.*\.\/weekly|no such file.*NAME@VERSION.*"handfast chain ls"/;
  await assert.rejects(type('run', 'weekly'), { code: 'chains.unknown_chain', message: both });
  await assert.rejects(type('run', join(folder, 'weekly.yaml')), { code: 'config_invalid', message: both });
  await assert.rejects(type('run', 'nightly@newest'), { code: 'config_invalid', message: both });
  // The error of an existing broken file does not mention names.
  const broken = write('broken.yaml', 'nodes: 1\n');
  await assert.rejects(type('run', broken), ({ message }: Error) => !message.includes('NAME@VERSION'));
  for (const command of ['get', 'rm'])
    await assert.rejects(type(command, 'a/b'), { code: 'usage', message: /NAME or NAME@VERSION/ });
});

test('a stored chain is printed as a file that reads back as the same chain, and drawn', async (t) => {
  const { agent, folder, type, write } = await user(t);
  const texts = [
    'yes',
    '1e3',
    '0x1',
    '~',
    '',
    ' a',
    '2026-01-01',
    '# a',
    '"',
    "it's: x",
    '\u001b[31m',
    '\u2028',
    'a \n\n b\n',
    '- x',
    '*a',
  ];
  const nodes: ChainNode[] = [
    call('a', { input: { texts, none: null, number: 1.5e300, deep: [[{}], []] }, retry: { max_attempts: 2 } }),
    { node_id: 'all', kind: 'reduce', after: ['a'], reduce: { jmespath: '[].{x: texts}' } },
  ];
  const settings = { description: 'x: y', timeout: 9.5, max_parallel: 2, budget: { nodes: 7 } };
  const { digest } = await agent.chains.put('odd-1', { ...settings, nodes });
  const printed = await type('get', 'odd-1');
  const { definition } = await loadChainFile(write('any.yaml', `${printed.lines.join('\n')}\n`), folder);
  assert.deepEqual(definition, { name: 'odd-1', ...settings, nodes });
  const { documents } = await type('put', join(folder, 'any.yaml'), { json: true });
  assert.deepEqual(documents, [{ name: 'odd-1', version: 1, created: false }]);

  const [document] = (await type('get', 'odd-1@1', { json: true })).documents;
  assert.equal((document as StoredChain).digest, digest);
  assert.match((await type('get', 'odd-1', { draw: true })).lines.join('\n'), /│ +all +│/);
  const svg = join(folder, 'odd.svg');
  assert.deepEqual((await type('get', 'odd-1', { svg, json: true })).documents, [{ file: svg }]);
  await assert.rejects(type('get', 'odd-1@2'), { code: 'chains.unknown_chain' });
});

test('a chain that the host refuses is not stored, and the error has its place in the file', async (t) => {
  const { type, write } = await user(t);
  const file = write('bad.yaml', 'nodes:\n  - node_id: a\n    kind: agent\n    name: none\n    input: { task: x }\n');
  await assert.rejects(type('put', file), { code: 'config_invalid', message: /bad\.yaml:3:\d+: / });
  assert.deepEqual((await type('ls', undefined)).notes.length, 1);
});

test('all versions are listed, also when one page does not hold them', async (t) => {
  const { agent, type } = await user(t);
  for (let at = 1; at <= 201; at += 1) await agent.chains.put('many', { nodes: [call(`n${at}`)] });
  const { lines } = await type('ls', 'many');
  assert.deepEqual([lines.length, lines[0], lines[200]], [201, 'many@201', 'many@1']);
});

test('a grant to read lists and prints stored chains, and stores and removes none', async (t) => {
  const reader: Principal = {
    name: 'reader',
    capabilities: ['chains'],
    grants: { chains: { access: 'read' } },
  };
  const { type, write } = await user(t, { principals: [reader], as: 'reader' });
  const file = write('a.yaml', 'nodes: [{ node_id: a, kind: wait, wait: { ms: 1 } }]\n');
  assert.equal((await type('ls', undefined)).notes.length, 1);
  await assert.rejects(type('get', 'a'), { code: 'chains.unknown_chain' });
  for (const [command, word] of [
    ['put', file],
    ['rm', 'a'],
    ['run', 'a'],
  ] as const)
    await assert.rejects(type(command, word), { code: 'unauthorized' });
});
