/**
 * A host with the built-in environments on TCP and on a Unix socket, in a separate process: prints its addresses as a
 * JSON list. For `bench/env-wire.ts`, which names the socket.
 */
import { envPlugin } from '../../src/capabilities/env/plugin.ts';
import { createHost } from '../../src/host.ts';
import { memoryJournal } from '../../src/journal.ts';
import { listen } from '../../src/listen.ts';

const host = createHost({ plugins: [envPlugin()], journal: memoryJournal(), limits: { maxParallel: 64 } });
await host.start();
const asked = ['tcp://127.0.0.1:0', ...process.argv.slice(2)];
const listeners = await Promise.all(asked.map((address) => listen(host, address)));
console.log(JSON.stringify(listeners.map(({ address }) => address)));
