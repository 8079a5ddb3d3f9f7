/**
 * The secrets of a host that configurations of toolkits name: read from the environment or a file of the host at each use,
 * never stored, listed or sent.
 *
 * The configuration of the host lists them; the grant of a principal selects those it may name.
 */
import { realpathSync } from 'node:fs';
import { readBounded } from '../../base/bounded-file.ts';
import type { Principal } from '../../host/context.ts';
import { failure } from './errors.ts';
import { mayNameSecret } from './rights.ts';
import type { Secret } from './toolkit.ts';

/** A secret, by reference. */
export interface SecretSettings {
  /** Its name in configurations of toolkits. */
  readonly name: string;
  /** The environment variable of the host that holds it. */
  readonly env?: string | undefined;
  /** The file that holds it, instead. */
  readonly file?: string | undefined;
  /** Origins it may be sent to. */
  readonly origins?: readonly string[] | undefined;
}

const MAX_BYTES = 16 * 1024;

export class Secrets {
  readonly #known: ReadonlyMap<string, SecretSettings>;
  readonly #env: Readonly<Record<string, string | undefined>>;

  constructor(settings: readonly SecretSettings[], env: Readonly<Record<string, string | undefined>>) {
    this.#known = new Map(settings.map((each) => [each.name, each]));
    this.#env = env;
  }

  /** Returns true when a secret of this name exists and the principal may name it. */
  has(name: unknown, principal: Principal): boolean {
    return typeof name === 'string' && this.#known.has(name) && mayNameSecret(principal, name);
  }

  /** Reads a secret. Fails with `toolkits.secret`. The message names the secret, not its source. */
  read(name: string, principal: Principal): Secret {
    const found = this.has(name, principal) ? this.#known.get(name) : undefined;
    if (found === undefined) throw failure('secret', `this principal may not use the secret ${JSON.stringify(name)}`);
    const value = found.env === undefined ? fileText(found.file ?? '') : this.#env[found.env]?.trim();
    if (value) return { value, origins: found.origins ?? [] };
    throw failure('secret', `the host has no value for the secret ${JSON.stringify(name)}`);
  }
}

function fileText(path: string): string | undefined {
  try {
    // Secrets that are mounted into containers are links.
    const read = readBounded(realpathSync(path), MAX_BYTES);
    return read.kind === 'file' ? read.bytes.toString('utf8').trim() : undefined;
  } catch {
    return undefined;
  }
}
