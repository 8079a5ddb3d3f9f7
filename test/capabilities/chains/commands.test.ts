/** `handfast chain run` when its host is lost: it reports how the run continues. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { commands } from '../../../src/capabilities/chains/commands.ts';
import { type Agent, connect } from '../../../src/connect.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { chainHost } from './support.ts';

/** Runs the command `chain run` for an agent, with a terminal that stores its notes. */
function runCommand(agent: Agent) {
  const notes: string[] = [];
  const terminal = {
    json: false,
    raw() {},
    rawError() {},
    exact() {},
    exactError() {},
    line() {},
    document() {},
    table() {},
    note: (text: string) => void notes.push(text),
  };
  const others = { openAgent: async () => agent, openFleet: () => assert.fail('no fleet') };
  const command = commands.find(({ usage }) => usage === 'run <chain>');
  return { command, notes, terminal, others };
}

test('chain run names the run and the command that continues it when the host is lost', async (t) => {
  const { host, held } = await chainHost(t);
  const agent = await connect(host, { capabilities: ['chains', 'tools'], resume: false });
  t.after(() => agent.close());
  const file = join(temporaryFolder(t), 'c.yaml');
  writeFileSync(file, 'nodes: [{ node_id: hold, kind: tool, name: hold, input: { name: hold } }]\n');
  const { command, notes, terminal, others } = runCommand(agent);
  const running = command?.run({ agent, args: [file], options: {}, terminal, signal: t.signal, ...others });
  await held('hold');
  const [run] = await agent.chains.runs();
  await Promise.all([assert.rejects(Promise.resolve(running)), host.close(0)]);
  assert.deepEqual(
    notes.map((note) => note.includes(`"handfast chain resume ${run?.chain_id}" continues it`)),
    [true],
    notes.join('\n'),
  );
});

test('a signal to end cancels the run, which undoes its nodes before the command ends; failed items are printed', async (t) => {
  const { host, held, called } = await chainHost(t);
  const agent = await connect(host, { capabilities: ['chains', 'tools'] });
  t.after(() => agent.close());
  const folder = temporaryFolder(t);
  const { command, notes, terminal, others } = runCommand(agent);
  const run = async (text: string, options: object, signal: AbortSignal) => {
    const file = join(folder, 'c.yaml');
    writeFileSync(file, text);
    return command?.run({ agent, args: [file], options: { ...options }, terminal, signal, ...others });
  };
  const stop = new AbortController();
  const running = run(
    `nodes:
  - { node_id: made, kind: tool, name: echo, input: { name: made }, compensate: unmade }
  - { node_id: held, kind: tool, name: hold, input: { name: held }, after: [made], on_error: compensate }
  - { node_id: unmade, kind: tool, name: echo, input: { name: unmade } }
`,
    {},
    stop.signal,
  );
  await held('held');
  stop.abort(new Error('a signal'));
  await assert.rejects(running, { message: 'a signal' });
  assert.deepEqual(called, ['made', 'held', 'unmade']);
  assert.match(notes[0] ?? '', /^run .*: cancelled: interrupted \[cancelled\]$/);
  notes.length = 0;
  const code = await run(
    `nodes:
  - { node_id: m, kind: map, items_path: $.list, map_node: t }
  - { node_id: t, kind: tool, name: add, input_map: { a: $.item, b: 1 } }
`,
    { input: '{"list": [1, "x", 2, "y"]}' },
    t.signal,
  );
  assert.equal(code, 1);
  assert.match(notes[0] ?? '', /^m: 2 of 4 items failed, at 1, 3; the first: .* \[schema_violation\]$/);
  assert.match(notes[1] ?? '', /: done, with failures$/);
  for (const [input, message] of [
    ['{"v": 12345678901234567890}', /more digits/],
    ['{"v": 1, "v": 2}', /occurs twice/],
    ['{"v": {"__proto__": 1}}', /not allowed/],
    ['[1]', /expected a JSON object/],
  ] as const) {
    await assert.rejects(run('nodes: [{ node_id: a, kind: tool, name: echo }]\n', { input }, t.signal), {
      code: 'usage',
      message,
    });
  }
});
