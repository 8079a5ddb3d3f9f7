/** `handfast init`: writes a commented configuration and a first plugin into a folder. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { handfastHome } from '../../base/handfast-home.ts';
import { asError, fail } from '../../wire/errors.ts';
import { CONFIG_FILE } from '../config-file.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageFolder } from '../package-info.ts';
import { initFiles } from './init-files.ts';

export interface InitFlags {
  /** Replaces files that are there. */
  readonly force?: boolean;
}

/** Writes all files or, when one of them is there already, none. Fails with `usage`. */
export async function init(folder: string, { force = false }: InitFlags, terminal: Terminal): Promise<void> {
  const files = initFiles(schemaFrom(resolve(folder)));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (!force) {
    const { lstatSync } = await import('node:fs');
    const there = [...files.keys()].filter((name) => lstatSync(join(folder, name), { throwIfNoEntry: false }));
    if (there.length > 0)
      throw fail('usage', `${there.join(' and ')} already there; --force replaces`, { files: there });
  }
  const written: string[] = [];
  for (const [name, text] of files) {
    const file = join(folder, name);
    // A link in its place is replaced: its target does not belong to this folder.
    if (force) await rm(file, { force: true });
    // The configuration may get secrets, and the plugin is code that runs: neither is for other users, also without a file
    // mask.
    await writeFile(file, text, { flag: 'wx', mode: 0o600 });
    written.push(file);
  }
  // The files are written: without the trust the next command names the way to it.
  await trustOwn(folder, files).catch((error) => terminal.note(`not trusted yet: ${asError(error).message}`));
  if (terminal.json) return terminal.document({ written });
  for (const file of written) terminal.line(`wrote ${file}`);
  const enter = relative('.', folder);
  terminal.line();
  terminal.line('Next:');
  if (enter !== '') terminal.line(`  cd ${enter}`);
  terminal.line('  handfast up                                   # in this terminal');
  terminal.line('  handfast tools call hello name=world          # in another one');
}

/**
 * Returns the schema in this package, which needs no network: relative where the package is installed in the folder or above
 * it, so that the line is true for all users of the same project; absolute for an installation elsewhere.
 */
function schemaFrom(folder: string): string {
  const file = join(packageFolder, 'schema', 'config.json');
  const path = relative(folder, file);
  const shared = !isAbsolute(path) && path.split(sep).filter((part) => part !== '..')[0] === 'node_modules';
  return (shared ? path : file).replaceAll('\\', '/');
}

/**
 * Trusts the files that this command wrote without a question: they belong to this user, unless another file lies there by now.
 */
async function trustOwn(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  const [{ TrustStore }, { digestOf }, { survey }, { trust }] = await Promise.all([
    import('../../trust/store.ts'),
    import('../../trust/covered-files.ts'),
    import('../trust/survey.ts'),
    import('../trust/trust-question.ts'),
  ]);
  const store = new TrustStore({ home: handfastHome(process.env) });
  const [found] = await survey(folder, store, [CONFIG_FILE]);
  const written = new Set([...files.values()].map((text) => digestOf(Buffer.from(text))));
  if (found !== undefined && Object.values(found.entry.files).every((digest) => written.has(digest))) {
    await trust([found], store);
  }
}
