/**
 * `handfast trust`: the files that this user trusts in the folders they work in.
 */
import { statSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import { handfastHome } from '../../base/handfast-home.ts';
import { folderIn } from '../../trust/check.ts';
import { readAgain } from '../../trust/covered-files.ts';
import { quoted } from '../../trust/quoted.ts';
import { type Place, placeOf } from '../../trust/repository.ts';
import { type TrustEntry, TrustStore } from '../../trust/store.ts';
import { fail } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import { survey } from '../trust/survey.ts';
import { canAsk, confirmed, shown, trust } from '../trust/trust-question.ts';

const openStore = (): TrustStore => new TrustStore({ home: handfastHome(process.env) });

/** Lists trusted files, and whether they are still as they were trusted. */
export async function trustList(terminal: Terminal): Promise<void> {
  const entries = (await openStore().entries()).map((entry) => ({ ...entry, state: stateOf(entry) }));
  if (terminal.json) return terminal.document(entries);
  if (entries.length === 0) return terminal.note('nothing is trusted; add a folder with: handfast trust add');
  terminal.table(
    ['WHAT', 'STATE', 'FILES', 'SINCE', 'FOLDER'],
    entries.map(({ subject, state, files, added_at, path }) => [
      subject,
      state,
      String(Object.keys(files).length),
      added_at.slice(0, 16).replace('T', ' '),
      path,
    ]),
  );
}

/** Returns whether the folder still has the trusted content. */
function stateOf({ path, repository, files }: TrustEntry): 'as trusted' | 'changed' | 'missing' {
  const place = placeAt(path);
  if (place === undefined || place.repository !== repository) return 'missing';
  return readAgain(files, place) === undefined ? 'changed' : 'as trusted';
}

/**
 * Trusts the files of a folder as they are now, and shows all of them. At a terminal the user is asked; elsewhere `--yes` is
 * the answer. Fails with `usage` where the folder has nothing to trust, the answer is no, or no answer came.
 */
export async function trustAdd(path: string, { yes }: { readonly yes?: boolean }, terminal: Terminal): Promise<void> {
  const folder = folderAt(path);
  const store = openStore();
  const findings = await survey(folder, store);
  if (findings.length === 0) {
    throw fail(
      'usage',
      `${folder} has no handfast.yaml, fleet.yaml, skills or settings of agents, and is no repository`,
    );
  }
  const mayAsk = canAsk(terminal);
  const isNew = findings.some(({ trusted }) => !trusted);
  if (!terminal.json) for (const line of shown(findings)) terminal.line(line);
  if (isNew && !yes && !mayAsk) {
    const advice = `once you have looked at it, run: handfast trust add ${quoted(folder)} --yes`;
    throw fail('usage', `nothing was trusted: no user can be asked without a terminal; ${advice}`);
  }
  if (terminal.json) return terminal.document({ trusted: await trust(findings, store) });
  if (!isNew) return terminal.note('all of it is trusted already');
  if (!yes && !(await confirmed('Trust it?', terminal))) throw fail('usage', 'nothing was trusted');
  await trust(findings, store);
  terminal.line();
  terminal.line(`trusted; withdraw it with: handfast trust rm ${quoted(folder)}`);
}

/**
 * Withdraws the trust in everything at and below a folder, in all worktrees of its repository. Programs that use it notice.
 * Fails with `usage` when nothing there is trusted.
 */
export async function trustRemove(paths: readonly string[], terminal: Terminal): Promise<void> {
  const removed: TrustEntry[] = [];
  for (const path of paths) {
    const absolute = resolve(path);
    const place = placeAt(absolute);
    const below = (inner: string, outer: string, separator: string): boolean =>
      inner === outer || outer === '' || inner.startsWith(`${outer}${separator}`);
    const some = await openStore().remove(
      (entry) =>
        below(entry.path, absolute, sep) ||
        (place !== undefined && entry.repository === place.repository && below(entry.folder, folderIn(place), '/')),
    );
    if (some.length === 0) throw fail('usage', `nothing at or below ${absolute} is trusted; see: handfast trust ls`);
    removed.push(...some);
  }
  if (terminal.json) return terminal.document({ removed });
  for (const { subject, path } of removed) terminal.line(`no longer trusted: ${subject} in ${path}`);
}

/** Returns the folder of a path that the user gave: the path itself, or the folder of the file. Fails with `usage`. */
function folderAt(path: string): string {
  const absolute = resolve(path);
  const found = statSync(absolute, { throwIfNoEntry: false });
  if (found === undefined) throw fail('usage', `there is no folder ${absolute}`);
  return found.isDirectory() ? absolute : dirname(absolute);
}

/** Returns the place of a folder; undefined when it is missing. */
function placeAt(folder: string): Place | undefined {
  try {
    return placeOf(folder);
  } catch {
    return undefined;
  }
}
