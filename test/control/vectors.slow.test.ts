/**
 * The conversations of the protocol, played against the server as it is put together for use. Every vector holds word for
 * word: no wording of the reference is one that must be mended. The other conversations over a process are played by
 * `test/cli/rpc-vectors.slow.test.ts`.
 */
import { describe, test } from 'node:test';
import { conversations } from '../../src/conformance/session-rpc/player.ts';
import { asProcess, holds, inMemory } from './support/vector-servers.ts';

describe('the server in this process', { concurrency: 2 }, () => {
  for (const conversation of conversations()) {
    test(`${conversation} holds, word for word`, (t) =>
      // A link in memory has no line that could be malformed; the process below gets those.
      holds(t, conversation, inMemory, ({ send }) => (typeof send === 'string' ? 'is no object' : undefined)));
  }
});

describe('handfast rpc', { concurrency: 2 }, () => {
  for (const conversation of conversations().filter((name) => /^(?:0[0-3]|1[23])-/.test(name))) {
    test(`${conversation} holds, word for word`, (t) => holds(t, conversation, asProcess));
  }
});
