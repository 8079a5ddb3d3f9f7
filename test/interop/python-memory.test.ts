/**
 * The memory API of the A2E Python SDK against Handfast's host over stdio: the calls of its client if they work, else
 * the same by raw message (`remember` and `recall` pass a text although their own model demands an object).
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandOf, skip, start } from './python-sdk.ts';

const home = mkdtempSync(join(tmpdir(), 'handfast-interop-memory-'));
const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');

describe('the memory of the Python SDK’s agent', { skip }, () => {
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio'];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-memory.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  test('opens a memory and stores entries of its own models', () => {
    assert.equal(results.init.namespace, 'python');
    assert.equal(results.init.success, true);
    assert.match(results.init.memory_id, /^mem-[0-9a-f]{32}$/);
    assert.deepEqual(results.store, [[{ topic: 'city' }, { topic: 'prefs' }], []]);
    assert.deepEqual(results['bad entry'], [[{ b: 1 }], ['entries[0]: ttl must not be negative']]);
  });

  test('decodes what it retrieves by key, words, tag and tier', () => {
    const [city] = results['by key'];
    assert.deepEqual(
      [city.key, city.content, city.tier, city.tags, city.source],
      [{ topic: 'city' }, 'Ada lives in Lisbon', 'episodic', ['profile'], 'turn-1'],
    );
    assert.equal(results.search[0].content, 'Ada lives in Lisbon');
    assert.ok(results.search[0].score > 0 && results.search[0].score <= 1);
    assert.deepEqual(results['by tag'][0].content, { lang: 'en', tone: 'dry' });
    assert.equal(results['by tag'][0].score, 0.9);
    assert.deepEqual(
      results.tier.map(({ key }: { key: unknown }) => key),
      [{ topic: 'prefs' }],
    );
  });

  test('forgets, and learns the code of an unknown memory', () => {
    assert.equal(results.forget, 1);
    assert.deepEqual(results.after, []);
    assert.equal(results.unknown.code, 'memory_not_found');
  });

  test('a text as key, which its helpers cannot build, works by raw message', () => {
    assert.equal(results.remember.failed, 'ValidationError');
    assert.deepEqual(results['raw remember'], [{ key: 'plain' }]);
    assert.equal(results['raw recall'][0].content, 'text');
  });
});
