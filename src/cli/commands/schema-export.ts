/** `handfast schema export`: the JSON Schemas of the messages and of the configuration files. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { suggest } from '../../base/suggest.ts';
import { fail } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageFolder } from '../package-info.ts';

export interface SchemaExportFlags {
  readonly out?: string;
}

/** Prints the schema of that name, or writes it (all of them without a name) to a folder. Neither: lists the names. */
export async function schemaExport(
  name: string | undefined,
  { out }: SchemaExportFlags,
  terminal: Terminal,
): Promise<void> {
  const names = await publishedNames();
  if (name !== undefined && !names.includes(name)) {
    const meant = suggest(name, names);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    throw fail('usage', `expected one of ${names.join(', ')}, got ${JSON.stringify(name)}${hint}`);
  }
  if (out === undefined) {
    if (name !== undefined) {
      terminal.page();
      terminal.exact(await textOf(name));
    } else if (terminal.json) terminal.document(names);
    else for (const each of names) terminal.line(each);
    return;
  }
  const written: string[] = [];
  await mkdir(out, { recursive: true, mode: 0o755 });
  for (const each of name === undefined ? names : [name]) {
    const file = join(out, `${each}.json`);
    await writeFile(file, await textOf(each), { mode: 0o644 });
    written.push(file);
  }
  if (terminal.json) terminal.document(written);
  else for (const file of written) terminal.line(file);
}

/** Returns names of the published schemas. */
export async function publishedNames(): Promise<string[]> {
  const files = await readdir(join(packageFolder, 'schema'));
  return files.filter((file) => file.endsWith('.json')).map((file) => basename(file, '.json'));
}

const textOf = (name: string): Promise<string> => readFile(join(packageFolder, 'schema', `${name}.json`), 'utf8');
