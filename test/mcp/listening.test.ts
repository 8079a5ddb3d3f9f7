/** The stream of notifications of a server without sessions: one that ends at once is opened less and less often. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Listening } from '../../src/mcp/listening.ts';

test('a stream that ends as soon as it was opened is opened a few times a minute', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let opened = 0;
  const listening = new Listening(async () => {
    opened += 1;
    return { resources: [], closed: Promise.resolve(), close: async () => {} };
  });
  await listening.start();
  for (let seconds = 0; seconds < 60; seconds += 0.25) {
    await turn();
    t.mock.timers.tick(250);
  }
  listening.end();
  // After 0.5, 1, 2, 4, 8, 16 and 30 s, or half of these.
  assert.ok(opened >= 5 && opened <= 12, String(opened));
});
