// A stdio agent on the Agent Client Protocol SDK for the `start` workload: answers `initialize`.
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

acp
  .agent({ name: 'bench' })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
