/**
 * The real server in a separate process, as `handfast up` runs it: `startServer` of `serve-child.ts` starts it. It
 * sends its addresses over the IPC channel and runs until it gets the order to stop.
 */
import { serve } from '../../src/serve.ts';

const server = await serve(process.argv[2], { announce: false });
process.on('message', () => {
  void server.close(0).then(() => process.disconnect?.());
});
process.send?.({ listeners: server.listeners, tokenFile: server.tokenFile });
