/**
 * A server whose tokens and rights change while it runs, for tests of the work that then ends.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { serve } from '../../src/server/serve.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

export const TOKEN = 'the-token-of-the-one-who-is-changed';
export const ADMIN = 'the-token-of-an-administrator-here';

/** Starts a server in this process whose configuration is written and read again. */
export async function start(t: TestContext, auth: string) {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const write = (text: string): void =>
    writeFileSync(
      file,
      `listen: http://127.0.0.1:0\nworkspace: .\nauth:\n  tokens:\n    - { name: root, token: ${ADMIN}, admin: true }\n${text}`,
    );
  write(auth);
  const env = { HANDFAST_HOME: join(folder, 'home') };
  const load = () => loadConfig(file, { env, cwd: folder });
  const server = await serve(await load(), { announce: false, reread: load });
  t.after(() => server.close(0));
  const reload = async (token = ADMIN) => {
    const response = await fetch(`${server.url}/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { server, folder, write, reload };
}

/** Returns the line of the principal whose rights change. */
export const ann = (grants: string): string => `    - { name: ann, token: ${TOKEN}, ${grants} }\n`;
