/**
 * A real server out of a configuration, with one token for each principal, for the tests of shares: it can be restarted
 * on its data, and returns the content of `/status`.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ShareUsage } from '../../src/base/share-usage.ts';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { connect as connectControl } from '../../src/control.ts';
import { type RunningServer, serve } from '../../src/server/serve.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const tokenOf = (name: string): string => `token-of-${name}-for-this-test`;

/** Longest wait for something that happens soon; a slow machine must not break a test. */
const SOON_MS = 60_000;

export interface SharesServer {
  readonly folder: string;
  agent(name: string): Promise<Awaited<ReturnType<typeof connect<'tools' | 'memory'>>>>;
  client(name: string): Promise<Awaited<ReturnType<typeof connectControl>>>;
  /** Resolves with one share of `/status`. */
  share(name: string): Promise<ShareUsage & { readonly evicted?: number }>;
  /** Waits until `holds` returns true for a share. */
  until(name: string, holds: (usage: ShareUsage) => boolean): Promise<ShareUsage>;
  /** Ends the server and starts it again on the same data. */
  restart(): Promise<void>;
}

/**
 * Starts a server. `principals` has the grants of each, `more` the rest of the configuration, `files` the files beside
 * it.
 */
export async function sharesServer(
  t: TestContext,
  principals: Readonly<Record<string, string>>,
  more: string,
  files: Readonly<Record<string, string>> = {},
): Promise<SharesServer> {
  const folder = temporaryFolder(t);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const file = join(folder, 'handfast.yaml');
  const tokens = Object.entries({ root: 'admin: true', ...principals }).map(
    ([name, grants]) => `    - { name: ${name}, token: ${tokenOf(name)}, ${grants} }\n`,
  );
  writeFileSync(file, `listen: http://127.0.0.1:0\nauth:\n  tokens:\n${tokens.join('')}${more}`);
  const env = { HANDFAST_HOME: join(folder, 'home'), HANDFAST_KEYRING: 'off' };
  const start = async (): Promise<RunningServer> =>
    serve(await loadConfig(file, { env, cwd: folder }), { announce: false });
  let server = await start();
  t.after(() => server.close(0));
  const share: SharesServer['share'] = async (name) => {
    const headers = { authorization: `Bearer ${tokenOf('root')}` };
    const { shares } = (await (await fetch(`${server.url}/status`, { headers })).json()) as {
      shares: Record<string, ShareUsage>;
    };
    return shares[name] as ShareUsage;
  };
  return {
    folder,
    agent: (name) => connect(server.url as string, { capabilities: ['tools', 'memory'], token: tokenOf(name) }),
    client: (name) => connectControl(server.url as string, { token: tokenOf(name) }),
    share,
    async until(name, holds) {
      for (const end = Date.now() + SOON_MS; ; await delay(20)) {
        const usage = await share(name);
        if (holds(usage)) return usage;
        if (Date.now() > end) throw new Error(`the share ${name} stays at ${JSON.stringify(usage)}`);
      }
    },
    async restart() {
      await server.close(0);
      server = await start();
    },
  };
}
