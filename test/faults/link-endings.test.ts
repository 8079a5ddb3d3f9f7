import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from '../support/peer.ts';

const script = fileURLToPath(new URL('./fixtures/close-and-drop.ts', import.meta.url));

for (const transport of ['tcp', 'unix'] as const) {
  for (const side of ['accepted', 'dialled'] as const) {
    test(`a ${transport} link that is closed and dropped in one turn ends, on the ${side} side, and leaves no socket`, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'handfast-ending-'));
      const child = spawn(process.execPath, [script, transport, side, join(folder, 'socket')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let said = '';
      child.stdout.on('data', (chunk) => {
        said += chunk;
      });
      // Only open handles keep it alive.
      const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
      const code = await new Promise((resolve) => child.once('close', resolve));
      clearTimeout(timer);
      await rm(folder, { recursive: true, force: true });
      assert.deepEqual([code, said], [0, 'told 1,1\n']);
    });
  }
}
