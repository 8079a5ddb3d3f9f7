/**
 * `agent.memory` against the memory of the A2E Python SDK: its host with the plugin of its cookbook, over HTTP and over
 * stdin and stdout. The plugin's deviations are listed, and a better one passes too.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Memory } from '../../src/capabilities/memory/client.ts';
import { type Agent, connect } from '../../src/connect.ts';
import { commandOf, environment, type Program, skip, start } from './python-sdk.ts';

for (const binding of ['http', 'stdio'] as const) {
  describe(`the memory of a Python host, over ${binding}`, { skip }, () => {
    let host: Program | undefined;
    let agent: Agent<'memory'>;
    let memory: Memory;

    before(async () => {
      const command = commandOf('python-memory-host.py', binding);
      if (binding === 'http') host = start(command);
      const address =
        host === undefined
          ? `stdio:${command.map((word) => `'${word}'`).join(' ')}`
          : (await host.line()).replace('listening ', '');
      agent = await connect(address, { capabilities: ['memory'], env: environment(), timeoutMs: 10_000 });
      memory = await agent.memory.open({ namespace: 'interop', scope: { user: 'u1' } });
    });
    after(async () => {
      await agent?.close();
      await host?.stop();
    });

    test('a memory is opened, and entries are stored', async () => {
      assert.notEqual(memory.id, '');
      const { errors } = await memory.store([
        { key: 'city', content: 'Ada lives in Lisbon', tags: ['profile'], source: 'turn-1' },
        { key: { topic: 'prefs' }, content: { lang: 'en', n: 1.5 }, tier: 'semantic', tags: ['ui'] },
      ]);
      assert.deepEqual(errors, []);
    });

    test('entries are read by key, tag and tier', async () => {
      const city = await memory.get('city');
      assert.deepEqual(
        [city?.key, city?.content, city?.tier, city?.tags, city?.source],
        [{ key: 'city' }, 'Ada lives in Lisbon', 'episodic', ['profile'], 'turn-1'],
      );
      assert.deepEqual((await memory.get({ topic: 'prefs' }))?.content, { lang: 'en', n: 1.5 });
      const { entries, total, nextCursor } = await memory.list({ tags: ['ui'] });
      assert.deepEqual([entries.map(({ key }) => key), total, nextCursor], [[{ topic: 'prefs' }], 1, undefined]);
      assert.equal((await memory.list({ tier: 'semantic' })).total, 1);
    });

    test('a search has no ranking there: the plugin ignores the query', async () => {
      const { entries } = await memory.search('Lisbon');
      assert.ok(entries.some(({ content }) => content === 'Ada lives in Lisbon'));
    });

    test('forgetting by tag deletes', async () => {
      assert.deepEqual(await memory.forget({ tags: ['ui'], tier: '' }), { deleted: 1, erased: undefined });
      assert.equal(await memory.get({ topic: 'prefs' }), undefined);
    });

    test('what the SDK has no message for is refused by its host, and the link stays open', async () => {
      await assert.rejects(memory.history('city'), { code: /^(?:parse_error|invalid_message)$/ });
      await assert.rejects(memory.stats(), { code: /^(?:parse_error|invalid_message)$/ });
      assert.notEqual(await memory.get('city'), undefined);
    });
  });
}
