/**
 * The bus to A2A agents that are Handfast workers, held to the contract of all buses.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { a2aBus } from '../../../src/fleet/bus/a2a/orchestrator-bus.ts';
import { serveA2a } from '../../../src/fleet/bus/a2a/worker-server.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { busContract } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { quiet } from '../support/stream-links.ts';
import { TOKEN } from './agent-stand.ts';

busContract({
  name: 'A2A',
  keepsResults: true,
  async open(workers) {
    const folder = await mkdtemp(join(tmpdir(), 'handfast-a2a-'));
    const auth = createAuthenticator([
      { principal: { name: 'boss', fleet: { submit: true } }, digests: [tokenDigest(TOKEN)] },
    ]);
    const agents = await Promise.all(
      workers.map((worker) =>
        serveA2a(worker, { port: 0, file: join(folder, `${worker.agentId}.db`), auth, log: quiet }),
      ),
    );
    const events = new PeerRecorder();
    const bus = a2aBus({
      peers: workers.map(({ agentId: name }, index) => ({ name, url: agents[index]!.address, token: () => TOKEN })),
      log: quiet,
      // Hundreds of calls at once take their time on a busy machine.
      callTimeoutMs: 600_000,
      healthIntervalMs: 50,
      pollDelay: { firstDelayMs: 5, maxDelayMs: 100 },
    });
    await bus.start(events);
    return {
      bus,
      events,
      async stop() {
        await bus.close();
        await Promise.all(agents.map((agent) => agent.close()));
        await rm(folder, { recursive: true, force: true });
      },
    };
  },
});
