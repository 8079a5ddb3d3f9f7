/**
 * A lost link in the middle of a streaming call: the agent resumes by itself, and sees every event exactly once.
 *
 * Between agent and host runs a proxy whose connections can be cut, as in networks. Run it with
 * `node -C handfast-source examples/resume.ts`.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { connect, createHost, listen, memoryJournal, type StateChange, tool, toolsPlugin } from 'handfast';

const EVENTS = 200;
let runs = 0;

const count = tool({
  name: 'count',
  description: 'Counts, one event for each number',
  input: { type: 'object', properties: { to: { type: 'integer' } }, required: ['to'] },
  async run({ to }: { to: number }, context) {
    runs += 1;
    for (let number = 0; number < to; number++) {
      await context.emit('log', { number });
      await setImmediate();
    }
    return { counted: to };
  },
});

// A session that has a journal can outlive its link.
const host = createHost({ plugins: [toolsPlugin({ tools: [count] })], journal: memoryJournal() });
await host.start();
const listener = await listen(host, 'tcp://127.0.0.1:0');

/** The connections through the proxy: two sockets each. */
const sockets = new Set<Socket>();
const proxy = createServer((near) => {
  const far = dial(Number(new URL(listener.address).port), '127.0.0.1');
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    sockets.add(from);
    from.on('error', () => from.destroy());
    from.on('close', () => to.destroy());
    from.pipe(to);
  }
});
await once(proxy.listen(0, '127.0.0.1'), 'listening');
const cut = () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
};

const address = `tcp://127.0.0.1:${(proxy.address() as AddressInfo).port}`;

// #region resume
const onState = ({ state }: StateChange) => console.log('connection:', state);
const agent = await connect(address, { capabilities: ['tools'], onState });
const call = agent.tools.call('count', { to: EVENTS });
const seen: number[] = [];
for await (const { seq } of call) {
  seen.push(seq);
  if (seq === 50 || seq === 120) cut(); // The network fails, twice, while the host continues to count.
}
const { data } = await call;
console.log(`${seen.length} events, the tool ran ${runs} time, its answer is`, data);
// #endregion

assert.deepEqual(
  seen,
  Array.from({ length: EVENTS }, (_, seq) => seq),
  'every event once, in order',
);
assert.equal(runs, 1, 'the call was not run again');
assert.deepEqual(data, { counted: EVENTS });

await agent.close();
await host.close();
await listener.close();
proxy.close();
