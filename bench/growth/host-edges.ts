/**
 * Units that a host handles repeatedly: connections, sessions, calls and their events, lines of the audit. Journal and
 * audit on disk.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { type Audit, openAudit } from '../../src/host/audit/audit.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { type TestHost, testHost } from '../../src/testing.ts';
import { type EdgeKind, inParallel } from './edge.ts';

const WIDTH = 16;
/** Events of one request. */
const EVENTS = 200;
/** Lines of the audit that may wait for the disk. */
const MAX_QUEUED = 4096;

const echo = tool({
  name: 'echo',
  description: 'Returns its input',
  input: {},
  run: (input: object) => ({ ...input }),
});

const count = tool({
  name: 'count',
  description: 'Sends events',
  input: {},
  run: async (_input: object, context) => {
    for (let n = 0; n < EVENTS; n += 1) await context.emit('log', { level: 'info', message: `event ${n}` });
    return {};
  },
});

async function host(folder: string): Promise<TestHost & { stop(): Promise<void> }> {
  // As `handfast up` has it with `journal: { kind: sqlite }`.
  const expiry = { maxAgeMs: 30 * 86_400_000, maxSessions: 10_000, retains: () => false };
  const journal = await sqliteJournal({ file: join(folder, 'journal.db'), expiry });
  const started = await testHost({ tools: [echo, count], journal, limits: { maxSessions: 1000 } });
  const stop = async (): Promise<void> => {
    await started[Symbol.asyncDispose]();
    await journal.close();
  };
  return Object.assign(started, { stop });
}

export const connections: EdgeKind = {
  unit: 'a TCP connection: handshake, a ping, closed',
  units: 50_000,
  quickUnits: 2_000,
  async open(folder) {
    const started = await host(folder);
    const { address } = await started.listen();
    const { connect } = await import('../../src/connect.ts');
    return {
      run: (units) =>
        inParallel(units, WIDTH, async () => {
          const agent = await connect(address, { token: started.token });
          await agent.ping();
          await agent.close();
        }),
      close: () => started.stop(),
    };
  },
};

export const sessions: EdgeKind = {
  unit: 'a session in memory: handshake, a call, ended',
  units: 200_000,
  quickUnits: 10_000,
  async open(folder) {
    const started = await host(folder);
    return {
      run: (units) =>
        inParallel(units, WIDTH, async () => {
          const agent = await started.connect({ capabilities: ['tools'] });
          await agent.tools.call('echo', { text: 'x' });
          await agent.close();
        }),
      close: () => started.stop(),
    };
  },
};

export const events: EdgeKind = {
  unit: 'an event of a call, in one session',
  units: 10_000_000,
  quickUnits: 400_000,
  async open(folder) {
    const started = await host(folder);
    const agent = await started.connect({ capabilities: ['tools'] });
    return {
      run: (units) =>
        inParallel(Math.ceil(units / EVENTS), WIDTH, () => agent.tools.call('count', {}, { onEvent: () => {} })),
      async close() {
        await agent.close();
        await started.stop();
      },
    };
  },
};

/** Files in the form of `handfast up`: rotated, the oldest removed past a size. */
const openLines = (folder: string): Audit =>
  openAudit({ file: join(folder, 'audit.jsonl'), maxBytes: 8 * 1024 * 1024, maxFiles: 4 });

export const audit: EdgeKind = {
  unit: 'a line of the audit',
  units: 3_000_000,
  quickUnits: 200_000,
  async open(folder) {
    const lines = openLines(folder);
    return {
      async run(units) {
        for (let n = 0; n < units; n += 1) {
          lines.record({
            time: Date.now(),
            session: 's'.repeat(32),
            principal: `principal ${n % 10}`,
            type: 'tool/call/req',
            tool: 'echo',
            request_bytes: 100,
            reply_bytes: 100,
            duration_ms: 1,
            outcome: 'ok',
          });
          while (lines.health.queued > MAX_QUEUED) await delay(1);
        }
        while (lines.health.queued > 0) await delay(1);
      },
      close: () => lines.close(),
    };
  },
};
