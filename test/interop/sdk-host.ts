/** A host of the A2E Python SDK with all its capabilities, for the calls of `sdk-host-calls.ts`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandOf, environment, start } from './python-sdk.ts';
import { makeCalls, type Outcome } from './sdk-host-calls.ts';

/** Makes every call of this project's client against the SDK's host, over the pipes of a child or over HTTP. */
export async function everyCallOfOurs(binding: 'stdio' | 'http'): Promise<Outcome[]> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-interop-host-'));
  const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
  const command = commandOf('python-whole-host.py', binding, folder);
  const host = binding === 'http' ? start(command, folder, 240_000) : undefined;
  try {
    const address =
      host === undefined
        ? `stdio:${command.map((word) => `'${word}'`).join(' ')}`
        : (await host.line()).replace('listening ', '');
    return await makeCalls(address, environment(), [process.execPath, everything, 'stdio']);
  } finally {
    await host?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
