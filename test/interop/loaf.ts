/**
 * The path of the agent loaf, whose headless server is the origin of session RPC 1.0.0, and a home for it whose only
 * model replies by a script. No part of it belongs to this project: install it to run these tests.
 *
 * Its sources run unchanged. Its requests to the provider on the network are replied to in its process
 * (`loaf-provider.ts`), because the address of that provider is fixed in it.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const places = [
  process.env.HANDFAST_LOAF ?? '',
  join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'agents', 'loaf', 'loaf'),
];
const folder = places.find((place) => place !== '' && existsSync(join(place, 'src', 'cli.ts')));

/**
 * Reason why loaf is not available, for `skip`; false when it is. Its sources are on no registry, so these tests are
 * optional in CI too; `test/control/client/plain-server.test.ts` always runs.
 */
export const skip: string | false =
  folder === undefined &&
  'run `node scripts/install-agents.ts loaf`, or set HANDFAST_LOAF to its folder, to run these tests';

export interface LoafPlace extends Disposable {
  /** Its home; also the folder its sessions work in. */
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
  /** Returns the words that start it, with these options of Node and arguments. */
  command(imports: readonly string[], ...words: string[]): string[];
}

/** Returns the file of an option `--import`. */
export const support = (name: string): string => new URL(name, import.meta.url).href;

/** Makes a home for it. */
export function loafPlace(): LoafPlace {
  if (folder === undefined) throw new Error('loaf is not installed: run `node scripts/install-agents.ts loaf`');
  const home = mkdtempSync(join(tmpdir(), 'handfast-loaf-'));
  const tsx = join(folder, '..', 'node_modules', 'tsx', 'dist', 'loader.mjs');
  return {
    home,
    env: { HOME: home, NODE_NO_WARNINGS: '1' },
    command: (imports, ...words) => [
      process.execPath,
      ...[tsx, ...imports].flatMap((each) => ['--import', each]),
      join(folder, 'src', 'cli.ts'),
      ...words,
    ],
    [Symbol.dispose]: () => rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }),
  };
}
