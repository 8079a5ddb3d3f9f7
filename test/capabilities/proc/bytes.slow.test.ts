/** Not one byte of the last output of programs is lost: they print and exit at once, a thousand times. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { agentOf, procHost } from './support.ts';

const RUNS = 1_000;
const AT_ONCE = 8;
const BYTES = 20_000;

for (const at of ['pipes', 'a terminal'] as const) {
  test(`${RUNS} programs that print ${BYTES} bytes and exit at once lose none, on ${at}`, {
    timeout: 600_000,
  }, async (t) => {
    const site = await procHost(t, { proc: { maxProcesses: AT_ONCE } });
    const text = `${randomBytes(BYTES)
      .toString('base64')
      .slice(0, BYTES - 4)}\nend`;
    writeFileSync(join(site.workspace, 'text'), text);
    const { proc } = await agentOf(t, site);
    let runs = 0;
    const worker = async (): Promise<void> => {
      while (runs < RUNS) {
        // Every third one ends with its last bytes on the other pipe.
        const cmd = runs++ % 3 === 0 ? ['sh', '-c', 'exec cat text >&2'] : ['cat', 'text'];
        const child = await proc.spawn(cmd, at === 'pipes' ? { stdin: 'null' } : { pty: { cols: 80, rows: 24 } });
        let seen = '';
        for await (const piece of child.output()) seen += piece.text;
        if (at !== 'pipes') seen = seen.replace('\r\n', '\n');
        assert.ok(seen === text, `${seen.length} of ${text.length} characters in run ${runs}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    assert.ok((await proc.list()).length <= 64 + AT_ONCE);
  });
}
