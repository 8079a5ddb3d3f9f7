/** Hosts with a memory for the tests of this folder: in this process, with a data folder that stays over restarts. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { AgentSession } from '../../../src/agent/agent.ts';
import { Memory, MemoryClient } from '../../../src/capabilities/memory/client.ts';
import { MemoryDatabase } from '../../../src/capabilities/memory/engine/database.ts';
import { type MemoryPluginOptions, memoryPlugin } from '../../../src/capabilities/memory/plugin.ts';
import { connect } from '../../../src/connect.ts';
import type { Principal } from '../../../src/host/context.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';

export { Memory, MemoryClient };

/** Makes a folder that is removed when the test has ended. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-memory-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Opens a database of the engine, closed when the test has ended; damage or a loss fails the test. */
export function openedDatabase(t: TestContext, file: string): MemoryDatabase {
  const database = MemoryDatabase.open({
    file,
    onCorrupt: () => assert.fail('damaged'),
    onLoss: () => assert.fail('lost'),
  });
  t.after(() => database.close());
  return database;
}

/** Returns a function that repeats a sequence of numbers between 0 and 1 for each seed. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export interface Opened {
  readonly host: Host;
  readonly folder: string;
  /** Opens a session; closed with the host. */
  agent(agentId?: string, principal?: string): Promise<AgentSession>;
  /** Opens the memory of an agent in a separate session. */
  memory(agentId?: string, principal?: string): Promise<Memory>;
  close(): Promise<void>;
}

/** Principals by name; their token is their name. */
const PRINCIPALS: Readonly<Record<string, Principal>> = {
  ada: { name: 'ada', admin: true },
  bob: { name: 'bob', grants: { memory: { read: ['team'], write: [] } } },
  guest: { name: 'guest', grants: { memory: { read: [], write: [] } }, limits: { storedBytes: 4096 } },
  eve: { name: 'eve', grants: { memory: { read: [], write: ['team', 'eve-*'] } } },
};

/** Starts a host with a memory, closed when the test has ended. */
export async function memoryHost(
  t: TestContext,
  options: MemoryPluginOptions = {},
  folder = temporaryFolder(t),
): Promise<Opened> {
  const auth = createAuthenticator(
    Object.values(PRINCIPALS).map((principal) => ({ principal, digests: [tokenDigest(principal.name)] })),
  );
  const host = createHost({ plugins: [memoryPlugin(options)], auth, dataDir: folder });
  await host.start();
  const close = () => host.close(0);
  t.after(close);
  const agent = async (agentId = 'planner', principal = 'ada') => {
    const opened = await connect(host, { capabilities: ['memory'], token: principal, agentId });
    return opened as unknown as AgentSession;
  };
  return {
    host,
    folder,
    agent,
    memory: async (agentId, principal) => new MemoryClient(await agent(agentId, principal)).open(),
    close,
  };
}

/** Returns every byte of the databases below a folder: files and logs. */
export function bytesBelow(folder: string): Buffer {
  const files = readdirSync(join(folder, 'memory')).filter((name) => /\.db(?:-wal|-shm)?$/.test(name));
  return Buffer.concat(files.map((name) => readFileSync(join(folder, 'memory', name))));
}
