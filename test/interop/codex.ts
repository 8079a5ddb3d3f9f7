/**
 * The path of the codex agent, and its settings, so that its only model is one of the test's. No part of it belongs to
 * this project: install it to run these tests.
 *
 * Searched in `HANDFAST_CODEX` (the program), in `node_modules/.bin`, and where `scripts/install-agents.ts` puts it.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const modules = join(import.meta.dirname, '..', '..', 'node_modules');
const places = [
  process.env.HANDFAST_CODEX ?? '',
  join(modules, '.bin', 'codex'),
  join(modules, '.cache', 'agents', 'node_modules', '.bin', 'codex'),
];
const program = places.find((place) => place !== '' && existsSync(place));

/** Reason why codex is not available, for `skip`; false when it is, and in CI, where its absence is a failure. */
export const skip: string | false =
  program === undefined &&
  process.env.CI === undefined &&
  'run `node scripts/install-agents.ts`, or set HANDFAST_CODEX to the codex program, to run these tests';

/**
 * Returns the program with a model at `baseUrl`, a responses API; `home` is an empty folder in which it stores
 * everything.
 */
export function codexProgram(
  baseUrl: string,
  home: string,
): { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> } {
  if (program === undefined) throw new Error('codex is not installed: run `node scripts/install-agents.ts`');
  const settings = {
    model_provider: 'scripted',
    'model_providers.scripted.name': 'scripted',
    'model_providers.scripted.base_url': baseUrl,
    'model_providers.scripted.env_key': 'SCRIPTED_KEY',
    'model_providers.scripted.wire_api': 'responses',
  };
  return {
    command: program,
    args: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${JSON.stringify(value)}`]),
    env: { HOME: home, CODEX_HOME: join(home, '.codex'), SCRIPTED_KEY: 'none' },
  };
}
