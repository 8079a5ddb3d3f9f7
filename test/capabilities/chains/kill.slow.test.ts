/**
 * A host is killed at every write of its store and at every effect of a chain; then the run is resumed. A log beside the store
 * has the effects of the chain.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ChainNode, ChainResult, ChainSpec } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import { asError } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const FLAGS = ['-C', 'handfast-source', '--import', join(import.meta.dirname, '../../preload.ts')];

interface Place {
  readonly socket: string;
  readonly state: string;
  readonly effects: string;
}

async function startHost({ socket, state, effects }: Place, crashAt = 0): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    [...FLAGS, join(import.meta.dirname, 'durable-host.ts'), socket, state, effects],
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env: { ...process.env, CRASH: String(crashAt) } },
  );
  await Promise.race([once(child, 'message'), once(child, 'exit')]);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

const place = (t: TestContext): Place => {
  const folder = temporaryFolder(t);
  const effects = join(folder, 'effects');
  writeFileSync(effects, '');
  return { socket: join(folder, 'socket'), state: join(folder, 'state.db'), effects };
};

const effectsOf = ({ effects }: Place): string[] => readFileSync(effects, 'utf8').split('\n').filter(Boolean);

const agentAt = ({ socket }: Place) =>
  connect(`unix://${socket}`, { capabilities: ['chains'], agentId: 'killer', reconnect: { maxMs: 1 } });

const ID = 'the-run';

/** Runs the chain in a host that kills itself at a point. Returns true when the run ended before. */
async function runUntilKilled(where: Place, chain: ChainSpec, crashAt: number): Promise<boolean> {
  const child = await startHost(where, crashAt);
  const exited = child.signalCode === null ? once(child, 'exit') : undefined;
  try {
    const agent = await agentAt(where);
    const done = await agent.chains.run(chain, {}, { chainId: ID });
    assert.equal(done.success, true);
    return true;
  } catch (error) {
    assert.ok(
      ['connection_lost', 'interrupted', 'session_lost', 'unreachable'].includes(asError(error).code),
      String(error),
    );
    await exited;
    return false;
  } finally {
    await end(child);
  }
}

/** Resumes the run in a new host until it is done; runs nodes again that may have run. Returns them. */
async function resumeUntilDone(where: Place): Promise<{ result: ChainResult | undefined; uncertain: string[] }> {
  const child = await startHost(where);
  try {
    const agent = await agentAt(where);
    const [run] = await agent.chains.runs();
    if (run === undefined) return { result: undefined, uncertain: [] };
    if (run.state === 'done') return { result: await agent.chains.watch(ID), uncertain: [] };
    assert.equal(run.state, 'interrupted');
    try {
      return { result: await agent.chains.resume(ID), uncertain: [] };
    } catch (thrown) {
      const error = asError(thrown);
      assert.equal(error.code, 'chains.uncertain');
      const uncertain = error.detail.nodes as string[];
      assert.equal((await agent.chains.runs())[0]?.state, 'paused');
      return { result: await agent.chains.resume(ID, { rerun: uncertain }), uncertain };
    }
  } finally {
    await end(child);
  }
}

const count = (lines: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const line of lines) counts[line] = (counts[line] ?? 0) + 1;
  return counts;
};

const node = (node_id: string, after: readonly string[], more: Partial<ChainNode> = {}): ChainNode => ({
  node_id,
  kind: 'tool',
  name: 'effect',
  input: { name: node_id },
  after: [...after],
  ...more,
});

/** A row, a fan with its fan-in, and a map. */
const CHAIN: ChainSpec = {
  nodes: [
    node('a', []),
    node('b1', ['a']),
    node('b2', ['a']),
    node('b3', ['a'], { name: 'put' }),
    node('c', ['b1', 'b2', 'b3']),
    { node_id: 'm', kind: 'map', after: ['c'], items_path: '$.b1.list', map_node: 'item' },
    {
      node_id: 'item',
      kind: 'tool',
      name: 'effect',
      input_map: { name: { jmespath: "join('', ['item', to_string(index)])" } },
    },
    node('d', ['m']),
  ],
};

test('killed at every point, nothing that was done runs again, and nothing runs twice without being asked for', {
  timeout: 600_000,
}, async (t) => {
  let killed = 0;
  let uncertainAt = 0;
  for (let crashAt = 1; ; crashAt += 1) {
    const where = place(t);
    const ended = await runUntilKilled(where, CHAIN, crashAt);
    const before = effectsOf(where);
    const { result, uncertain } = await resumeUntilDone(where);
    const told = `killed at point ${crashAt}: ${before} then ${effectsOf(where)}, uncertain ${uncertain}`;
    if (result === undefined) {
      // The run was not accepted yet.
      assert.deepEqual(before, [], told);
      killed += 1;
      continue;
    }
    assert.equal(result.success, true, told);
    assert.deepEqual(result.outputs.d, { name: 'd' }, told);
    const counts = count(effectsOf(where));
    for (const name of ['a', 'b1', 'b2', 'c', 'd', 'item0']) {
      const asked = uncertain.includes(name) || (name === 'item0' && uncertain.includes('m'));
      assert.ok(counts[name] === 1 || (asked && counts[name] === 2), `${name} ran ${counts[name]} times; ${told}`);
    }
    // It declares that it may be repeated.
    assert.ok((counts.b3 ?? 0) >= 1 && (counts.b3 ?? 0) <= 2 && !uncertain.includes('b3'), told);
    if (uncertain.length > 0) uncertainAt += 1;
    if (ended) break;
    killed += 1;
  }
  assert.ok(killed >= 20 && uncertainAt >= 5, `${killed} kills, of them ${uncertainAt} with uncertain nodes`);
});
