/**
 * The real server in a process of its own, as `handfast up` runs it: started by `startServer` of `serve-child.ts`, it sends
 * its addresses over the IPC channel and runs until it is ordered to stop.
 */
import { serve } from '../../src/serve.ts';

const server = await serve(process.argv[2], { announce: false });
process.on('message', () => {
  void server.close(0).then(() => process.disconnect?.());
});
process.send?.({ listeners: server.listeners, tokenFile: server.tokenFile });
