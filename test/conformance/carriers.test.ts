/** The transports of the conformance kit towards targets that do not behave. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { openCarrier } from '../../src/conformance/carriers.ts';

for (const scheme of ['ws', 'http']) {
  test(`${scheme}: a connection that a target swallows is closed when the time to connect has passed`, async (t) => {
    const swallowing = createServer((socket) => socket.resume().on('error', () => {}));
    swallowing.listen(0, '127.0.0.1');
    await once(swallowing, 'listening');
    t.after(() => swallowing.close());
    const { port } = swallowing.address() as AddressInfo;
    const accepted = once(swallowing, 'connection') as Promise<[Socket]>;
    const opening = openCarrier(`${scheme}://127.0.0.1:${port}`, { text() {}, gone() {} }, 200);
    await assert.rejects(opening, { code: 'timeout' });
    const [socket] = await accepted;
    // A socket that a command leaves open keeps its process alive.
    if (!socket.closed) await once(socket, 'close');
  });
}
