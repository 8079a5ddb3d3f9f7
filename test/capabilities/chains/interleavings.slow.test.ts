/**
 * Four nodes side by side end in each of their 24 orders, and another host continues the files at every write and every effect
 * of each order, as after a kill at that moment. The node behind them starts once, after all of them, and has their outputs in
 * the order of the chain. A log beside the store has the effects.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { asError } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, chainHost } from './support.ts';

/** Called before and after each commit of this process. */
let committing: (() => void) | undefined;
const commits = new WeakSet<StatementSync>();
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function prepareNoted(this: DatabaseSync, sql: string, ...more) {
  const statement = prepare.call(this, sql, ...more);
  if (sql === 'COMMIT') commits.add(statement);
  return statement;
};
const { run } = StatementSync.prototype;
StatementSync.prototype.run = function runNoted(this: StatementSync, ...values: Parameters<typeof run>) {
  if (!commits.has(this)) return run.apply(this, values);
  committing?.();
  const done = run.apply(this, values);
  committing?.();
  return done;
} as typeof run;

/** The files of a host. */
const FILES = ['state.db', 'state.db-wal', 'effects'];
const SIDES = ['a', 'b', 'c', 'd'];
const ID = 'the-run';

const effectNode = (node_id: string, after: readonly string[]): ChainNode => ({
  node_id,
  kind: 'tool',
  name: 'effect',
  input: { name: node_id },
  after: [...after],
});

const NODES: ChainNode[] = [
  effectNode('first', []),
  ...SIDES.map((id) => effectNode(id, ['first'])),
  { node_id: 'together', kind: 'gather', after: SIDES },
  effectNode('join', ['together']),
  effectNode('last', ['join']),
];

function* orders(names: readonly string[]): Generator<string[]> {
  if (names.length === 0) yield [];
  for (const name of names) for (const rest of orders(names.filter((other) => other !== name))) yield [name, ...rest];
}

const linesOf = (file: string): string[] => readFileSync(file, 'utf8').split('\n').filter(Boolean);

/** Returns a host on this folder, whose tool appends to its log, after awaiting `gate`. */
async function hostAt(
  t: TestContext,
  folder: string,
  gate: (name: string) => Promise<void> | undefined,
  point = () => {},
) {
  const log = join(folder, 'effects');
  const effect = tool({
    name: 'effect',
    description: 'Appends a line to the effects',
    input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    run: async ({ name }: { name: string }) => {
      await gate(name);
      point();
      appendFileSync(log, `${name}\n`);
      point();
      return { name };
    },
  });
  const { host } = await chainHost(t, { tools: [effect], stateFile: join(folder, 'state.db') });
  const { chains } = await agentOf(t, host);
  return { host, chains, log };
}

/** Continues the state that a kill has left. Returns true if a node may have run. */
async function continued(t: TestContext, folder: string, told: string): Promise<boolean> {
  const { host, chains, log } = await hostAt(t, folder, () => undefined);
  const before = linesOf(log);
  const [known] = await chains.runs();
  if (known === undefined) {
    assert.deepEqual(before, [], told);
    await host.close(0);
    return false;
  }
  let again: string[] = [];
  const result = await (known.state === 'done' ? chains.watch(ID) : chains.resume(ID)).catch((thrown: unknown) => {
    const { code, detail } = asError(thrown);
    assert.equal(code, 'chains.uncertain', told);
    again = detail.nodes as string[];
    return chains.resume(ID, { rerun: again });
  });
  const log2 = linesOf(log);
  const shown = `${told}: ${before} then ${log2}, again ${again}`;
  assert.equal(result.success, true, shown);
  assert.deepEqual(
    result.outputs.together,
    SIDES.map((name) => ({ name })),
    shown,
  );
  for (const name of ['first', ...SIDES, 'join', 'last']) {
    const count = log2.filter((line) => line === name).length;
    assert.ok(count === 1 || (count === 2 && again.includes(name)), `${name} ran ${count} times; ${shown}`);
  }
  const joined = log2.indexOf('join');
  for (const side of SIDES) assert.ok(log2.indexOf(side) < joined, `${side} is behind the join; ${shown}`);
  await host.close(0);
  return again.length > 0;
}

test('in every order, and continued from every moment of it, a fan-in starts once', { timeout: 600_000 }, async (t) => {
  const root = temporaryFolder(t);
  const folderOf = (name: string): string => {
    const folder = join(root, name);
    mkdirSync(folder);
    writeFileSync(join(folder, 'effects'), '');
    return folder;
  };
  let moments = 0;
  let uncertain = 0;
  for (const order of orders(SIDES)) {
    const name = order.join('');
    const folder = folderOf(name);
    const copies: string[] = [];
    let points = 0;
    let last = '';
    // Copies the files that a kill at this moment leaves. Equal bytes in a row are continued once.
    const point = (): void => {
      points += 1;
      const files = FILES.filter((file) => existsSync(join(folder, file)));
      const hash = createHash('sha256');
      for (const file of files) hash.update(`${file}\n`).update(readFileSync(join(folder, file)));
      const digest = hash.digest('hex');
      if (digest === last) return;
      last = digest;
      const copy = folderOf(`${name}-${copies.length}`);
      for (const file of files) copyFileSync(join(folder, file), join(copy, file));
      copies.push(copy);
    };
    const gates = new Map(SIDES.map((side) => [side, Promise.withResolvers<void>()]));
    const here = new Map(SIDES.map((side) => [side, Promise.withResolvers<void>()]));
    const gate = (side: string) => {
      here.get(side)?.resolve();
      return gates.get(side)?.promise;
    };
    const { host, chains, log } = await hostAt(t, folder, gate, point);
    committing = point;
    const running = chains.run({ nodes: NODES }, {}, { chainId: ID });
    const left = [...order];
    void Promise.all([...here.values()].map(({ promise }) => promise)).then(() =>
      gates.get(left.shift() ?? '')?.resolve(),
    );
    for await (const { fields } of running) {
      const { node_id, phase } = fields as { node_id: string; phase: string };
      // The next one ends once the end of this one is on disk.
      if (phase === 'done' && SIDES.includes(node_id)) gates.get(left.shift() ?? '')?.resolve();
    }
    assert.equal((await running).success, true);
    committing = undefined;
    await host.close(0);
    assert.deepEqual(linesOf(log), ['first', ...order, 'join', 'last']);
    // They mostly wait for the disk.
    const found = await Promise.all(
      copies.map((copy, at) => continued(t, copy, `${name}, state ${at} of ${copies.length}`)),
    );
    uncertain += found.filter(Boolean).length;
    moments += points;
  }
  assert.ok(moments > 24 * 20 && uncertain > 24 * 5, `${moments} moments, ${uncertain} with nodes that may have run`);
});
