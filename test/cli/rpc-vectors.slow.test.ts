/**
 * `handfast rpc` and the conversations of the protocol that `test/control/vectors.slow.test.ts` plays only inside this process:
 * those with turns, saved chats, models and sign-ins. These turns use the tools of a host at an address.
 */
import { describe, test } from 'node:test';
import { conversations } from '../../src/conformance/session-rpc/player.ts';
import { asProcess, holds } from '../control/support/vector-servers.ts';

describe('handfast rpc', { concurrency: 2 }, () => {
  for (const conversation of conversations().filter((name) => !/^(?:0[0-3]|1[23])-/.test(name))) {
    test(`${conversation} holds, word for word`, (t) => holds(t, conversation, asProcess));
  }
});
