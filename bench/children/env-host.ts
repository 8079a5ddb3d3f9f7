/** A host with the built-in environments on TCP, in a process of its own: prints its address. For `bench/env-wire.ts`. */
import { envPlugin } from '../../src/capabilities/env/plugin.ts';
import { createHost } from '../../src/host.ts';
import { memoryJournal } from '../../src/journal.ts';
import { listen } from '../../src/listen.ts';

const host = createHost({ plugins: [envPlugin()], journal: memoryJournal(), limits: { maxParallel: 64 } });
await host.start();
console.log((await listen(host, 'tcp://127.0.0.1:0')).address);
