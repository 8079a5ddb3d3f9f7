/**
 * Records `journals.ndjson`: plays the dialogues through real sessions of `handfast rpc`, with a model provider that
 * plays the model's part and tools that search this repository, and writes a line for each turn from the events of the
 * session.
 *
 *   node -C handfast-source bench/memory/record-journals.ts
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as control from 'handfast/control';
import { startModelServer } from '../../src/testing.ts';
import { dialogues } from './dialogues.ts';

/** Characters of a tool's result that are in a line. */
const MAX_OUTPUT = 400;

const root = join(import.meta.dirname, '..', '..');
process.chdir(root);
const home = mkdtempSync(join(tmpdir(), 'handfast-record-'));
await using model = await startModelServer();
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'rpc', '--backend', 'model'];
const address = `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;
const env = {
  HANDFAST_HOME: home,
  HANDFAST_KEYRING: 'off',
  OPENAI_BASE_URL: model.baseUrl('responses'),
  OPENAI_API_KEY: 'sk-record',
};
const client = await control.connect(address, { clientName: 'recorder', env });
const lines: string[] = [];
try {
  for (const { title, turns } of dialogues) {
    const session = await client.create({ title });
    for (const [at, { prompt, calls = [], text }] of turns.entries()) {
      if (calls.length > 0) model.play([{ tool_calls: calls.map((call, n) => ({ id: `c${at}-${n}`, ...call })) }]);
      model.play([{ text }]);
      const turn = await session.prompt(prompt);
      const tools: { name: string; output: string }[] = [];
      for await (const event of turn) {
        if (event.type !== 'session.tool.call.completed') continue;
        const { executed } = event.payload.data as { executed: { name: string; result: unknown } };
        tools.push({ name: executed.name, output: JSON.stringify(executed.result).slice(0, MAX_OUTPUT) });
      }
      const { text: said, stopReason } = await turn.result();
      if (stopReason !== 'end_turn') throw new Error(`${title}, turn ${at}: ${stopReason}`);
      lines.push(JSON.stringify({ title, turn: at, prompt, tools, text: said }));
    }
  }
} finally {
  await client.close();
  rmSync(home, { recursive: true, force: true });
}
writeFileSync(join(import.meta.dirname, 'journals.ndjson'), `${lines.join('\n')}\n`);
process.stdout.write(`${lines.length} turns of ${dialogues.length} sessions\n`);
