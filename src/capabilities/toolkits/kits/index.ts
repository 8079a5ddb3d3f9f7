/**
 * The built-in toolkits of a host. Toolkits that run programs or leave the machine exist only if the configuration names them.
 */
import { fail } from '../../../wire/errors.ts';
import type { AnyToolkit } from '../toolkit.ts';
import { filesystem } from './filesystem.ts';
import { type GitOptions, git } from './git.ts';
import { type HttpOptions, http } from './http.ts';
import { processes } from './process.ts';
import { search } from './search.ts';
import { type SqliteOptions, sqlite } from './sqlite.ts';

/** A toolkit as the configuration names it. */
export interface KitSettings {
  readonly name: string;
  readonly enabled?: boolean | undefined;
  readonly deferred?: boolean | undefined;
}

/** Limits of the toolkits' reach. */
export interface KitOptions {
  readonly git?: GitOptions | undefined;
  readonly http?: HttpOptions | undefined;
  readonly sqlite?: SqliteOptions | undefined;
}

/** Toolkits that exist without a configuration: they run no program of an agent, and stay on the machine. */
const SAFE: readonly KitSettings[] = [{ name: 'filesystem' }, { name: 'search' }, { name: 'sqlite' }];

/** Returns the toolkits that the configuration names, in its order. Throws `config_invalid`. */
export function builtinToolkits(settings: readonly KitSettings[] = SAFE, options: KitOptions = {}): AnyToolkit[] {
  const all: Readonly<Record<string, () => AnyToolkit>> = {
    filesystem: () => filesystem,
    git: () => git(options.git),
    http: () => http(options.http),
    process: () => processes,
    search: () => search,
    sqlite: () => sqlite(options.sqlite),
  };
  return settings.map(({ name, enabled, deferred }) => {
    const make = Object.hasOwn(all, name) ? all[name] : undefined;
    if (make === undefined)
      throw fail('config_invalid', `there is no toolkit ${name}; there are ${Object.keys(all).join(', ')}`);
    return { ...make(), ...(enabled !== undefined && { enabled }), ...(deferred !== undefined && { deferred }) };
  });
}
