/** The folders that skills are looked for in. Used by `plugin.ts`, and by `capability.ts`, which protects them. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { handfastHome } from '../../base/handfast-home.ts';

/** Absolute paths, the first counts most. @param given those of the configuration, from the workspace on */
export const skillRoots = (
  given: readonly string[] | undefined,
  workspace: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] =>
  (given ?? [join(handfastHome(env), 'skills'), join(homedir(), '.agents', 'skills')]).map((path) =>
    resolve(workspace, path),
  );
