/** Refusals of a stream that say nothing about the message, as servers send them while they choose who decides. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { connect } from '@nats-io/transport-node';
import { openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { ControlRequests } from '../../../src/fleet/bus/nats/requests.ts';
import type { FleetPeer } from '../../../src/fleet/bus/peer.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { log } from './fleet.ts';
import { type Installed, NatsServer, natsTest } from './server.ts';

/** Refusals that a server of a cluster sends around an election. */
const PASSING = {
  'the server cannot propose it any more': { error: { code: 503, description: 'raft: not leader' } },
  'an earlier copy is being stored': {
    error: { code: 409, err_code: 10158, description: 'duplicate message id is in process' },
  },
  'an earlier copy is being stored, as older servers say it': { seq: 0, duplicate: true },
  'an earlier write of the key is being stored': {
    error: { code: 503, err_code: 10163, description: 'expected last sequence per subject temporarily unavailable' },
  },
  'the stream has too much to do': { error: { code: 429, err_code: 10167, description: 'too many requests' } },
};

/** A link to a server without streams, and a stand-in for one: it answers this first, and stores what comes again. */
async function staged(context: TestContext, installed: Installed, first: object) {
  const server = await NatsServer.start(context, installed);
  const link = await openNats('test', { servers: server.url, log });
  context.after(() => link.close());
  const connection = await connect({ servers: server.url });
  context.after(() => connection.close());
  const heard: string[] = [];
  connection.subscribe('stored.>', {
    callback: (_, message) => {
      heard.push(message.subject);
      const answer = heard.length === 1 ? first : { seq: 7 };
      message.respond(JSON.stringify({ stream: 'S', ...answer }));
    },
  });
  await connection.flush();
  return { link, heard };
}

describe('refusals of NATS that pass', { concurrency: 4 }, () => {
  for (const [why, first] of Object.entries(PASSING)) {
    natsTest(
      `a message is sent again: ${why}`,
      async (context, installed) => {
        const { link, heard } = await staged(context, installed, first);
        await link.publish('stored.message', Buffer.from('{}'), 'id');
        assert.equal(heard.length, 2);
      },
      { only: 'newest' },
    );

    natsTest(
      `a request about a task is sent again: ${why}`,
      async (context, installed) => {
        const { link, heard } = await staged(context, installed, first);
        const requests = new ControlRequests({ link, answered: () => {}, newId: () => 'id' });
        context.after(() => requests.stop());
        const message = fleetMessage('TASK_CANCEL', { task_id: 't' });
        await requests.send('stored.request', message, { peerId: 'w' } as FleetPeer, () => {});
        assert.equal(heard.length, 2);
      },
      { only: 'newest' },
    );
  }

  natsTest(
    'a refusal that says something about the message is reported at once',
    async (context, installed) => {
      const full = { error: { code: 503, err_code: 10077, description: 'maximum messages exceeded' } };
      const { link, heard } = await staged(context, installed, full);
      await assert.rejects(link.publish('stored.message', Buffer.from('{}'), 'id'), { code: 'over_capacity' });
      assert.equal(heard.length, 1);
    },
    { only: 'newest' },
  );
});
