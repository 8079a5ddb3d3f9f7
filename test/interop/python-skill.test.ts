/**
 * The skill API of the A2E Python SDK against Handfast's host over stdio. The losses of its API are listed, and a
 * better one passes too.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandOf, skip, start } from './python-sdk.ts';

const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');

const SKILLS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  count: {
    'SKILL.md': `---
name: count
description: Counts words
version: "1.2.0"
entry: main.js
allowed-tools: read_file
tags: [text]
parameters: { type: object, properties: { path: { type: string } }, required: [path] }
---
Counts.
`,
    'main.js': `export default async ({ path }, skill) => {
  await skill.progress(50, 'read');
  const { content } = await skill.tool('read_file', { path });
  return { words: content.trim().split(/\\s+/).length };
};`,
  },
  style: { 'SKILL.md': '---\nname: style\ndescription: How to write\n---\nBe brief.\n' },
  throws: {
    'SKILL.md': '---\nname: throws\ndescription: Fails\nentry: main.js\n---\nFails.\n',
    'main.js': `export default () => { throw new Error('on purpose'); };`,
  },
};

describe('the skill API of the Python SDK’s agent', { skip }, () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-interop-skill-'));
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    for (const [name, files] of Object.entries(SKILLS)) {
      const folder = join(home, 'skills', name);
      mkdirSync(folder, { recursive: true, mode: 0o755 });
      for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text, { mode: 0o644 });
    }
    writeFileSync(join(home, 'poem.txt'), 'one two three\n');
    const config = join(home, 'host.yaml');
    const plugins = ['tools', { use: 'skill', options: { roots: [join(home, 'skills')] } }];
    writeFileSync(config, JSON.stringify({ plugins, workspace: home }));
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio', '--config', config];
    process.env.HANDFAST_HOME = join(home, 'home');
    const agent = start(commandOf('python-skill.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  const names = (skills: { name: string }[]) => skills.map(({ name }) => name);

  test('discovers skills with its models, by tag and category', () => {
    assert.deepEqual(names(results.discover), ['count', 'style', 'throws']);
    assert.deepEqual([names(results['by tag']), results['by category']], [['count'], []]);
    const [count] = results.discover;
    assert.deepEqual(
      [count.version, count.tools, count.arguments, count.status],
      ['1.2.0', ['read_file'], ['path'], 'Published'],
    );
    assert.deepEqual(count.input_schema.required, ['path']);
  });

  test('calls a skill that calls a tool: its result as its model, and its events', () => {
    assert.deepEqual([results.call.success, results.call.data, results.call.error], [true, { words: 3 }, null]);
    assert.ok(results.call.duration_ms >= 0);
    const kinds = results.events.map(({ kind }: { kind: string }) => kind);
    assert.deepEqual(kinds, ['skill.started', 'progress', 'tool.started', 'tool.completed', 'skill.completed']);
    assert.deepEqual(
      results.events.map(({ seq }: { seq: number }) => seq),
      [0, 1, 2, 3, 4],
    );
    assert.equal(results.text.data.instructions, 'Be brief.');
  });

  test('its call raises our errors with their codes', () => {
    const failed = ['throws', 'wrong', 'unknown'].map((name) => results[name]);
    assert.ok(
      failed.every((each) => each.failed === 'A2EClientError' || each.success === false),
      JSON.stringify(failed),
    );
    assert.match(JSON.stringify(results.throws), /skill_error.*on purpose|on purpose.*skill_error/);
    assert.match(JSON.stringify(results.wrong), /schema_violation/);
    assert.match(JSON.stringify(results.unknown), /unknown_skill/);
  });

  test('its own discover unpacks models as if they were maps: it fails on its side', (t) => {
    const { failed } = results['its discover'];
    t.diagnostic(failed ?? 'works');
    assert.ok(
      failed === 'TypeError' || names(results['its discover']).includes('count'),
      JSON.stringify(results['its discover']),
    );
  });
});
