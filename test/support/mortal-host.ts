/**
 * A host in a separate process that a test kills: `mortal-host.ts KIND`. On pipes for `stdio`, else its address is sent
 * over the IPC channel. Its tools return its process id, and wait for ever.
 */
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { createHost } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { stdioLink } from '../../src/transport/stdio.ts';
import { doorOf } from './sites.ts';

const host = createHost({
  plugins: [
    toolsPlugin({
      tools: [
        tool({ name: 'pid', description: 'The id of this process', run: () => process.pid }),
        tool({ name: 'wait', description: 'Never replies', run: () => new Promise<never>(() => {}) }),
      ],
    }),
  ],
  journal: memoryJournal(),
});
await host.start();
const kind = process.argv[2] as 'tcp' | 'unix' | 'websocket' | 'http' | 'stdio';
if (kind === 'stdio') host.accept(stdioLink());
else process.send?.((await doorOf(kind, host)).address);
