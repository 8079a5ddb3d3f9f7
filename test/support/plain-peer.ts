/**
 * A peer that sends plain messages of A2E to a host of a test, after a handshake for one capability.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Host } from '../../src/host/host.ts';
import type { Peer } from './peer.ts';
import type { Message } from './raw-agent.ts';
import { doorOf, type TransportName } from './sites.ts';

/**
 * Starts the host and connects to it; both end with the test.
 * @param caps `asked`: the word that is asked for, `granted`: the name of the capability that is granted for it
 */
export async function plainPeer(
  t: TestContext,
  transport: Exclude<TransportName, 'stdio'>,
  host: Host,
  { asked, granted }: { readonly asked: string; readonly granted: string },
): Promise<Peer> {
  await host.start();
  const door = await doorOf(transport, host);
  const peer = await door.dial();
  t.after(async () => {
    peer.cut();
    await door.close();
    await host.close(0);
  });
  peer.send({ type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: [asked] });
  const terms = (await peer.next()) as Message;
  assert.deepEqual([terms.ok, terms.accepted_caps[0].capability], [true, granted]);
  return peer;
}
