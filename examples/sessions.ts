/**
 * A first session: starts a server of sessions as its child, sends a prompt, and follows its events. The backend is the
 * rehearsal one, so that no key is needed; with a provider configured only the answers differ.
 *
 * Run it with `node -C handfast-source examples/sessions.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as control from 'handfast/control';

process.chdir(dirname(import.meta.dirname));
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'rpc', '--backend', 'rehearsal'];
const address = `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;
const home = mkdtempSync(join(tmpdir(), 'handfast-example-'));
const env = { HANDFAST_HOME: home, HANDFAST_KEYRING: 'off' };

// #region sessions
const client = await control.connect(address, { clientName: 'example', env });
const session = await client.create({ title: 'first steps', parallelTools: true });

const turn = await session.prompt('read LICENSE and count its lines');
for await (const event of turn) {
  if (event.type === 'session.tool.call.started') console.log('a tool is called');
}
const { text, stopReason } = await turn.result();
console.log(stopReason, text.trim().split('\n').at(-1)); // end_turn LICENSE has 21 lines.
// #endregion

assert.equal(stopReason, 'end_turn');
const { messages } = await session.state();
console.log('kept:', messages.map(({ kind }) => kind).join(', '));
await client.close();
rmSync(home, { recursive: true });
