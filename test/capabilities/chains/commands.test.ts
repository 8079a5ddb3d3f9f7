/** `handfast chain run` when its host is lost: it says how the run continues. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { commands } from '../../../src/capabilities/chains/commands.ts';
import { connect } from '../../../src/connect.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { chainHost } from './support.ts';

test('chain run names the run and the command that continues it when the host is lost', async (t) => {
  const { host, held } = await chainHost(t);
  const agent = await connect(host, { capabilities: ['chains', 'tools'], resume: false });
  t.after(() => agent.close());
  const file = join(temporaryFolder(t), 'c.yaml');
  writeFileSync(file, 'nodes: [{ node_id: hold, kind: tool, name: hold, input: { name: hold } }]\n');
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
