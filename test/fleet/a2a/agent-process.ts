/**
 * A process with a real worker as an A2A agent, whose tasks never end. Prints its address and waits to be killed.
 *
 * Its argument is the folder of its data.
 */
import { join } from 'node:path';
import { serveA2a } from '../../../src/fleet/bus/a2a/worker-server.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { quiet } from '../support/stream-links.ts';

const home = process.argv[2] as string;
const executor = functionExecutor({ run: () => new Promise(() => {}) });
const worker = await createWorker({
  agentId: 'w-1',
  executor,
  tools: [],
  cwd: home,
  home: join(home, 'data'),
  log: quiet,
});
await worker.start();
const { address } = await serveA2a(worker, { port: 0, file: join(home, 'a2a.db'), log: quiet });
console.log(address);
