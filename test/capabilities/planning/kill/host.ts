/** The host of the proof: planning over a Unix socket, with its state on disk. Arguments: socket, state file. */
import { planningPlugin } from '../../../../src/capabilities/planning/plugin.ts';
import { createHost } from '../../../../src/host/host.ts';
import { listenUnix } from '../../../../src/transport/socket.ts';

const [, , path = '', stateFile = ''] = process.argv;
const host = createHost({ plugins: [planningPlugin({ maxTasks: 100_000 })], stateFile });
await host.start();
await listenUnix({ path }, (link) => host.accept(link));
process.send?.('ready');
