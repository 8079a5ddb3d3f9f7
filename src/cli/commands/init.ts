/** `handfast init`: writes a commented configuration and a first plugin into a folder. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fail } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import { initFiles } from './init-files.ts';

export interface InitFlags {
  /** Replaces files that are there. */
  readonly force?: boolean;
}

/** Writes all files or, when one of them is there already, none. Fails with `usage`. */
export async function init(folder: string, { force = false }: InitFlags, terminal: Terminal): Promise<void> {
  const files = initFiles();
  await mkdir(folder, { recursive: true });
  if (!force) {
    const { existsSync } = await import('node:fs');
    const there = [...files.keys()].filter((name) => existsSync(join(folder, name)));
    if (there.length > 0)
      throw fail('usage', `${there.join(' and ')} already there; --force replaces`, { files: there });
  }
  const written: string[] = [];
  for (const [name, text] of files) {
    const file = join(folder, name);
    await writeFile(file, text, { flag: force ? 'w' : 'wx' });
    written.push(file);
  }
  if (terminal.json) return terminal.document({ written });
  for (const file of written) terminal.line(`wrote ${file}`);
  const enter = relative('.', folder);
  terminal.line();
  terminal.line('Next:');
  if (enter !== '') terminal.line(`  cd ${enter}`);
  terminal.line('  handfast up                                   # in this terminal');
  terminal.line('  handfast tools call hello name=world          # in another one');
}
