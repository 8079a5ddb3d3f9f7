/**
 * `handfast mcp config`: the entry of an MCP client for this machine, printed, or merged into the client's settings.
 */

import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { readRegular } from '../../base/regular-file.ts';
import { replaceFile } from '../../base/replace-file.ts';
import { asError, fail } from '../../wire/errors.ts';
import { type ClientName, clientEntry, entryText, mergedText } from '../client-entries.ts';
import type { Terminal } from '../output/terminal.ts';

export interface McpConfigFlags {
  readonly write?: boolean;
  readonly connect?: string;
  readonly tokenFile?: string;
  readonly config?: string;
}

/** Fails with `config_invalid` when the settings cannot be read; then they are as they were. */
export async function mcpConfig(client: ClientName, flags: McpConfigFlags, terminal: Terminal): Promise<void> {
  const args = ['mcp', 'serve'];
  if (flags.connect !== undefined) args.push('--connect', flags.connect);
  // The client starts it in a folder that the client chooses.
  if (flags.tokenFile !== undefined) args.push('--token-file', resolve(flags.tokenFile));
  if (flags.config !== undefined) args.push('--config', resolve(flags.config));
  const { env, platform } = process;
  const entry = clientEntry(client, { command: 'handfast', args }, { home: env.HOME || homedir(), env, platform });
  const text = entryText(entry);
  if (!flags.write) {
    if (terminal.json) return terminal.document({ client, file: entry.file, text });
    terminal.note(`for ${entry.file}; --write merges it there`);
    return terminal.exact(text);
  }
  // Settings are often links into a repository of the user's.
  const file = await realpath(entry.file).catch(() => entry.file);
  const before = await readRegular(file).catch((thrown: unknown) => {
    if (asError(thrown).detail.errno === 'ENOENT' || (thrown as { code?: unknown }).code === 'ENOENT') return '';
    throw thrown;
  });
  let after: string;
  try {
    after = mergedText(before, entry);
  } catch (thrown) {
    const { message } = asError(thrown);
    throw fail('config_invalid', `${file}: ${message}`, { file }, thrown);
  }
  if (after !== before) await replaceFile(file, after, { keepMode: true });
  if (terminal.json) terminal.document({ client, file, text, changed: after !== before });
  else terminal.line(after === before ? `${file} has the entry already` : `wrote ${file}`);
}
