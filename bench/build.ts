/**
 * Builds a checkout: the measured code must match its present sources. Throws when the build failed.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/** @param checkout this one, unless another is named */
export function build(checkout: string = join(import.meta.dirname, '..')): void {
  const { status } = spawnSync(process.execPath, [join(checkout, 'scripts', 'build.ts')], { stdio: 'inherit' });
  if (status !== 0) throw new Error(`the build of ${checkout} failed`);
}
