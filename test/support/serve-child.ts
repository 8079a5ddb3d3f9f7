/**
 * Starts `serve-process.ts` as a child, with a separate folder.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ServerChild {
  readonly tcp: string;
  /** Path of the Unix socket. */
  readonly unix: string;
  /** Without a path. */
  readonly http: string;
  readonly ws: string;
  readonly rpc: string;
  /** This user's own token. */
  readonly token: string;
  readonly child: ChildProcess;
  stop(): Promise<void>;
}

/** Resolves when every address listens. `yaml` is added to the configuration. */
export async function startServer(yaml = ''): Promise<ServerChild> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-server-'));
  const unix = join(folder, 'socket');
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, `listen: ["http://127.0.0.1:0", "tcp://127.0.0.1:0", "unix://${unix}"]\n${yaml}`);
  const script = fileURLToPath(new URL('./serve-process.ts', import.meta.url));
  const child = spawn(process.execPath, ['-C', 'handfast-source', script, file], {
    cwd: folder,
    env: { ...process.env, HANDFAST_HOME: join(folder, 'home') },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [{ listeners, tokenFile }] = (await once(child, 'message')) as [{ listeners: string[]; tokenFile: string }];
  const [http = '', tcp = ''] = listeners;
  const ws = http.replace('http', 'ws');
  return {
    tcp,
    unix,
    http,
    ws: `${ws}/ws`,
    rpc: `${ws}/rpc`,
    token: readFileSync(tokenFile, 'utf8').trim(),
    child,
    async stop() {
      const exited = once(child, 'exit');
      const ended = child.exitCode !== null || child.signalCode !== null;
      if (!ended && child.connected) child.send('stop');
      const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
      if (!ended) await exited;
      clearTimeout(timer);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
