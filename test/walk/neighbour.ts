/**
 * Another client of the walked host, in its own process: pings all the time and replies to each `take` with its longest ping and
 * with the longest turn of its loop, which does nothing else. Its arguments: the address and a token.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LoopMeter } from './loop-meter.ts';
import { PlainAgent } from './plain-agent.ts';

const [, , address = '', token = ''] = process.argv;
const agent = await PlainAgent.open(address, token, ['tools']);
const meter = new LoopMeter();
let longest = 0;
/** When the ping left that waits for its pong. */
let since = performance.now();
process.on('message', () => {
  process.send?.({ ping: Math.max(longest, performance.now() - since), bare: meter.take() });
  longest = 0;
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
for (;;) {
  since = performance.now();
  await agent.ask({ type: 'ping' });
  longest = Math.max(longest, performance.now() - since);
  since = performance.now();
  await sleep(5);
  since = performance.now();
}
