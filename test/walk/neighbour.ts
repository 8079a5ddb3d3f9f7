/**
 * Another client of the walked host, in its own process: pings all the time and replies to each `take` with its longest
 * ping and with the longest turn of its loop, which has no other work. The time that the host had no processor is left
 * out of a ping. Its arguments: the address, a token, and the process id of the host.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LoopMeter, schedule, waitedNs } from './loop-meter.ts';
import { PlainAgent } from './plain-agent.ts';

const [, , address = '', token = '', host = ''] = process.argv;
const agent = await PlainAgent.open(address, token, ['tools']);
const meter = new LoopMeter();
let longest = 0;
const file = schedule(Number(host));
/** Returns the clock of the host, in milliseconds. */
const clock = (): number => performance.now() - waitedNs(file) / 1e6;
/** Time at which the ping that waits for its pong left. */
let since = clock();
process.on('message', () => {
  process.send?.({ ping: Math.max(longest, clock() - since), bare: meter.take() });
  longest = 0;
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
for (;;) {
  since = clock();
  await agent.ask({ type: 'ping' });
  longest = Math.max(longest, clock() - since);
  since = clock();
  await sleep(5);
  since = clock();
}
