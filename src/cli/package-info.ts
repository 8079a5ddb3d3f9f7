/**
 * The folder, name and version of this package.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The folder of the package: the same distance from `src/cli/` and from `dist/cli/`. */
export const packageFolder: string = fileURLToPath(new URL('../../', import.meta.url));

export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}
