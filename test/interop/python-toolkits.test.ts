/**
 * The toolkits API of the A2E Python SDK against Handfast's host over stdio. The losses of its API are listed, and a
 * better one passes too.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandOf, skip, start } from './python-sdk.ts';

const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');

describe('the toolkits API of the Python SDK’s agent', { skip }, () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-interop-toolkits-'));
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const config = join(home, 'host.yaml');
    writeFileSync(config, 'plugins: [tools, toolkits]\n');
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio', '--config', config];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-toolkits.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  const names = (toolkits: { name: string }[]) => toolkits.map(({ name }) => name);

  test('lists toolkits, by category and tags, and gets one by its name', () => {
    assert.deepEqual(names(results.list), ['filesystem', 'search', 'sqlite']);
    assert.deepEqual([names(results['by kind']), names(results['by tag'])], [['sqlite'], ['filesystem']]);
    const { tools, configured, version, schema } = results.get;
    assert.deepEqual([tools, configured, version], [['sqlite_schema', 'sqlite_query'], false, '1.0.0']);
    assert.equal(schema.properties.max_rows.default, 200);
    assert.equal(results['get nothing'], null);
  });

  test('configures with its models, field errors in the message; then its ensure finds it configured', () => {
    assert.deepEqual([results.wrong.status, results.unknown.status], ['error', 'error']);
    assert.match(results.wrong.message, /^the configuration of sqlite: \/max_rows must be >= 1/);
    assert.match(results.unknown.message, /^there is no toolkit "nothing"/);
    assert.deepEqual(results.right, { ...results.right, status: 'ok', toolkit_name: 'sqlite', message: null });
    assert.deepEqual([results.ensure.name, results.ensure.configured], ['sqlite', true]);
    const listed = results.tools.filter(({ toolkit }: { toolkit: string }) => toolkit === 'sqlite');
    assert.deepEqual(names(listed), ['sqlite_schema', 'sqlite_query']);
  });

  test('its own configure names no toolkit: our reply says so, which it cannot read', (t) => {
    const { failed, name } = results['its configure'];
    t.diagnostic(failed ?? `configured ${name}`);
    assert.ok(failed === 'AttributeError' || failed === 'RuntimeError' || name === 'sqlite', JSON.stringify(results));
  });
});
