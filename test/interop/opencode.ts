/**
 * The path of the opencode agent, and a project folder it works in against a model server of the test. No part of it
 * belongs to this project: install it to run these tests.
 *
 * Searched in `HANDFAST_OPENCODE` (the program), in `node_modules/.bin`, and where `scripts/install-agents.ts` puts it.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AcpAgent } from '../../src/control/backends/acp/acp.ts';

const modules = join(import.meta.dirname, '..', '..', 'node_modules');
const places = [
  process.env.HANDFAST_OPENCODE ?? '',
  join(modules, '.bin', 'opencode'),
  join(modules, '.cache', 'agents', 'node_modules', '.bin', 'opencode'),
];
const program = places.find((place) => place !== '' && existsSync(place));

/** Reason why opencode is not available, for `skip`; false when it is, and in CI, where its absence is a failure. */
export const skip: string | false =
  program === undefined &&
  process.env.CI === undefined &&
  'run `node scripts/install-agents.ts`, or set HANDFAST_OPENCODE to the opencode program, to run these tests';

export interface OpencodeProject extends Disposable {
  /** Absolute. */
  readonly folder: string;
  readonly agent: AcpAgent;
}

/** Creates a project whose only model is the one at `baseUrl`, an OpenAI-compatible chat API. */
export function opencodeProject(baseUrl: string): OpencodeProject {
  if (program === undefined) throw new Error('opencode is not installed: run `node scripts/install-agents.ts`');
  const top = mkdtempSync(join(tmpdir(), 'handfast-opencode-'));
  const folder = join(top, 'project');
  const home = join(top, 'home');
  mkdirSync(folder);
  mkdirSync(home);
  const config = {
    // Without it the program writes it into the file.
    $schema: 'https://opencode.ai/config.json',
    model: 'scripted/m',
    small_model: 'scripted/m',
    autoupdate: false,
    share: 'disabled',
    permission: { bash: 'ask', edit: 'ask' },
    provider: {
      scripted: {
        npm: '@ai-sdk/openai-compatible',
        name: 'scripted',
        options: { baseURL: baseUrl, apiKey: 'none' },
        models: { m: { name: 'm' } },
      },
    },
  };
  writeFileSync(join(folder, 'opencode.json'), JSON.stringify(config));
  return {
    folder,
    // Everything that it stores goes into the folder, also if the machine is configured otherwise.
    agent: {
      name: 'opencode',
      command: program,
      args: ['acp'],
      env: {
        HOME: home,
        XDG_DATA_HOME: join(home, 'data'),
        XDG_CONFIG_HOME: join(home, 'config'),
        XDG_CACHE_HOME: join(home, 'cache'),
        XDG_STATE_HOME: join(home, 'state'),
      },
    },
    [Symbol.dispose]: () => rmSync(top, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }),
  };
}
