/**
 * The real server in its own process, with everything that a peer can request, and a meter of its event loop. It sends
 * its addresses over the IPC channel and replies to each `take` with the longest turn since the last.
 */
import { serve } from '../../src/serve.ts';
import { LoopMeter } from './loop-meter.ts';

const server = await serve(process.argv[2], { announce: false, fleet: process.argv[3] });
const meter = new LoopMeter();
process.on('message', (question) => {
  // The last reply may have left work for the next turns.
  if (question === 'take') setTimeout(() => process.send?.(meter.take()), 5);
  else void server.close(0).then(() => process.exit());
});
process.on('disconnect', () => process.exit());
process.send?.({ listeners: server.listeners, tokenFile: server.tokenFile });
