/**
 * A configuration file that was found in a folder, as opposed to one the user named: its place and its bytes, read
 * once.
 *
 * Its content is not interpreted here.
 */
import { join } from 'node:path';
import { readBounded } from '../base/bounded-file.ts';
import { fail } from '../wire/errors.ts';
import { type Place, placeOf } from './repository.ts';

/** The limit of a configuration file, as in `config/open-config.ts`. */
const MAX_BYTES = 1024 * 1024;

export interface FoundFile {
  readonly place: Place;
  /** Absolute, without links. */
  readonly file: string;
  readonly bytes: Buffer;
}

/**
 * Reads a file of a folder; undefined when it does not exist. Fails with `config_invalid` for a link, a pipe, a device,
 * a socket and a file that is too long.
 */
export function findFile(folder: string, name: string): FoundFile | undefined {
  const place = placeOf(folder);
  const file = join(place.folder, name);
  const read = readBounded(file, MAX_BYTES);
  if (read.kind === 'absent') return undefined;
  if (read.kind === 'file') return { place, file, bytes: read.bytes };
  const advice = read.reason === 'is a link' ? '; name it with --config to use it' : '';
  throw fail('config_invalid', `${file} ${read.reason}${advice}`, { path: file });
}
