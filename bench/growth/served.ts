/** Starts a server of sessions from a configuration, and a client of it over HTTP, for the edges that measure one. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.ts';
import { type ControlClient, connect } from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';

export const TOKEN = 'token-of-the-growth-bench';
/** Units at a time. */
export const WIDTH = 8;

interface Served {
  readonly control: ControlClient;
  /** Address of the host, for agents. */
  readonly agents: string;
  /** Folder of the sessions. */
  readonly cwd: string;
  close(): Promise<void>;
}

/**
 * Starts a server with its files in `folder`.
 * @param more further lines of its configuration
 */
export async function served(folder: string, more = ''): Promise<Served> {
  const cwd = join(folder, 'work');
  mkdirSync(cwd, { recursive: true });
  const file = join(folder, 'handfast.yaml');
  const tokens = `auth: { tokens: [{ name: root, token: ${TOKEN}, admin: true }] }`;
  writeFileSync(
    file,
    `listen: [http://127.0.0.1:0, tcp://127.0.0.1:0]\n${tokens}\ncontrol: { backend: rehearsal, max_sessions: 1000000 }\nlimits: { max_sessions: 1000000 }\n${more}`,
  );
  const env = { HANDFAST_HOME: join(folder, 'home'), HANDFAST_KEYRING: 'off' };
  const server = await serve(await loadConfig(file, { env, cwd: folder }), { announce: false });
  const control = await connect(server.url as string, { token: TOKEN });
  const agents = server.listeners.find((address) => address.startsWith('tcp:')) as string;
  const close = async (): Promise<void> => {
    await control.close();
    await server.close(0);
  };
  return { control, agents, cwd, close };
}
