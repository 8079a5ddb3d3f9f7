/** A host with the learning capability in a separate process, which a test kills: `mortal-host.ts FILE`. Sends its address. */
import { learningPlugin } from '../../../src/capabilities/learning/plugin.ts';
import { createHost } from '../../../src/host/host.ts';
import { listenTcp } from '../../../src/transport/socket.ts';

const host = createHost({ plugins: [learningPlugin()], stateFile: process.argv[2] as string });
await host.start();
const listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
process.send?.(listener.address);
