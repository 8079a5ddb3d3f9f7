/**
 * A host with the planning capability, its state in a file, on TCP, in a separate process: prints its address. For
 * `bench/planning.ts`, which names the file.
 */
import { planningPlugin } from '../../src/capabilities/planning/plugin.ts';
import { createHost } from '../../src/host.ts';
import { memoryJournal } from '../../src/journal.ts';
import { listen } from '../../src/listen.ts';

const [, , stateFile = ''] = process.argv;
const host = createHost({ plugins: [planningPlugin()], journal: memoryJournal(), stateFile });
await host.start();
console.log((await listen(host, 'tcp://127.0.0.1:0')).address);
