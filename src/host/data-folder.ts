/**
 * The data folder of a plugin: private, below the host's, or temporary. This file is loaded only when a plugin asks for
 * its folder, because a host must reply to its first handshake before it touches the disk.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensurePrivateFolder } from '../base/private-file.ts';

/** Makes the folder of a plugin; in the temporary folder of the system where the host has none. Fails with `config_invalid`. */
export async function makeDataFolder(dataDir: string | undefined, plugin: string): Promise<string> {
  if (dataDir === undefined) return mkdtemp(join(tmpdir(), 'handfast-data-'));
  const folder = join(dataDir, encodeURIComponent(plugin).replaceAll('.', '%2E'));
  await ensurePrivateFolder(dataDir);
  await ensurePrivateFolder(folder);
  return folder;
}

export const removeDataFolder = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true });
