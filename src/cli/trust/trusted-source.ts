/**
 * The content of a configuration file that was found in the current folder, when this user trusts it as it is.
 *
 * The bytes that were checked are the bytes that are used.
 */
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { handfastHome } from '../../base/handfast-home.ts';
import { HeldTrust, trustedFile, untrusted } from '../../trust/check.ts';
import { type FoundFile, findFile } from '../../trust/found-file.ts';
import { quoted } from '../../trust/quoted.ts';
import { TrustStore } from '../../trust/store.ts';
import { fail } from '../../wire/errors.ts';
import type { TrustedSource } from '../config-file.ts';

/**
 * Fails with `untrusted_folder` when the user does not trust the file, and with `config_invalid` when it is not a
 * readable file.
 */
export async function trustedSource(name: 'handfast.yaml' | 'fleet.yaml'): Promise<TrustedSource> {
  const found = foundHere(name);
  const home = handfastHome(process.env);
  if (isOwn(found, home)) return { source: found.bytes };
  const store = new TrustStore({ home });
  const trust = await trustedFile(found, name, store);
  if (trust === undefined) throw untrusted(found.place.folder, `${quoted(found.file)} is not trusted`);
  const { covered } = trust;
  if (covered.read.size > 1) (await import('../../trust/pinned-modules.ts')).pinModules(covered.read, found.place);
  return {
    source: found.bytes,
    trust: new HeldTrust(trust, found, store),
    checkModules(modules) {
      const other = modules.find((module) => !covered.read.has(module));
      if (other !== undefined) {
        throw untrusted(found.place.folder, `${quoted(other)} was not there when ${name} was trusted`);
      }
    },
  };
}

/** Returns the content of a file that is read for a report, whether it is trusted or not. */
export const uncheckedSource = (name: 'handfast.yaml' | 'fleet.yaml'): TrustedSource => ({
  source: foundHere(name).bytes,
});

function foundHere(name: string): FoundFile {
  const found = findFile('.', name);
  if (found === undefined) throw fail('config_invalid', `${name} was removed while it was read`);
  return found;
}

/** True for the file in a folder of the user's own settings. Folders below it hold other things, such as worktrees. */
function isOwn({ place: { folder } }: FoundFile, home: string): boolean {
  const { XDG_CONFIG_HOME, HOME } = process.env;
  const settings = XDG_CONFIG_HOME || (HOME ? join(HOME, '.config') : undefined);
  return [home, ...(settings ? [join(settings, 'handfast')] : [])].some((path) => {
    try {
      return realpathSync(path) === folder;
    } catch {
      return false;
    }
  });
}
