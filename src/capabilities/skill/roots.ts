/** The folders in which skills are searched. The capability protects them as trusted paths. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { handfastHome } from '../../base/handfast-home.ts';

/**
 * Returns absolute paths, the first of which has precedence. @param given those of the configuration, relative to the workspace
 */
export const skillRoots = (
  given: readonly string[] | undefined,
  workspace: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] =>
  (given ?? [join(handfastHome(env), 'skills'), join(homedir(), '.agents', 'skills')]).map((path) =>
    resolve(workspace, path),
  );
