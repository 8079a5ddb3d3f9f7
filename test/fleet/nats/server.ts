/**
 * Real NATS servers for tests: every test starts a separate one, with its own port and store folder, and can kill and start it
 * again. Two versions where both are installed: the one in PATH (Debian's) and the one of `scripts/install-nats.ts`.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { within } from '../../contract/recorder.ts';
import { ownPort } from '../../support/own-port.ts';

/** An installed server. */
export interface Installed {
  readonly version: string;
  readonly path: string;
}

const CACHED = join(import.meta.dirname, '../../../node_modules/.cache/nats/bin/nats-server');

function installed(): readonly Installed[] {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  const inPath = folders.map((folder) => join(folder, 'nats-server')).find((path) => existsSync(path));
  const found: Installed[] = [];
  for (const path of [inPath, CACHED]) {
    if (path === undefined || !existsSync(path)) continue;
    const version = /v(\d+\.\d+\.\d+)/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' }))?.[1];
    if (version !== undefined && !found.some((other) => other.version === version)) found.push({ version, path });
  }
  return found;
}

const servers = installed();

/** Registers one test per installed server. None: skipped with a word on how to get one; failed where that must not happen. */
export function natsTest(
  name: string,
  body: (context: TestContext, server: Installed) => Promise<void>,
  options: { readonly timeout?: number; readonly only?: 'newest' } = {},
): void {
  const { timeout = 300_000, only } = options;
  if (servers.length === 0) {
    const how = 'no nats-server: apt-get install nats-server, or node scripts/install-nats.ts';
    test(name, { skip: process.env.CI === undefined ? how : false }, () => {
      throw new Error(how);
    });
    return;
  }
  for (const server of only === 'newest' ? servers.slice(-1) : servers) {
    test(`${name} (nats-server ${server.version})`, { timeout }, (context) => body(context, server));
  }
}

/** Returns the latest installed server, for tests that need one version only; undefined where none is installed. */
export const newest = (): Installed | undefined => servers.at(-1);

/** Settings of a server beyond the usual: lines of its configuration file. */
export interface ServerSettings {
  readonly config?: string;
  /** Lines of its section `jetstream`. */
  readonly jetstream?: string;
}

/** A running server that belongs to one test; it and its store are gone when the test has ended. */
export class NatsServer {
  readonly #installed: Installed;
  readonly #folder: string;
  readonly #config: string;
  readonly #jetstream: string;
  #process: ChildProcess | undefined;
  #port: number | undefined;

  constructor(installed: Installed, { config = '', jetstream = '' }: ServerSettings = {}) {
    this.#installed = installed;
    this.#folder = mkdtempSync(join(tmpdir(), 'handfast-nats-'));
    this.#config = config;
    this.#jetstream = jetstream;
  }

  static async start(context: TestContext, installed: Installed, settings: ServerSettings = {}): Promise<NatsServer> {
    const server = new NatsServer(installed, settings);
    context.after(() => server.remove());
    await server.up();
    return server;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get port(): number {
    if (this.#port === undefined) throw new Error('the server was never started');
    return this.#port;
  }

  /** Returns a path beside its store, gone with it. */
  file(name: string): string {
    return join(this.#folder, name);
  }

  /** Starts it, again on the same port and store after {@link kill}. Resolves when it is ready. */
  async up(): Promise<void> {
    this.#port ??= await ownPort();
    const path = join(this.#folder, 'server.conf');
    writeFileSync(
      path,
      `listen: "127.0.0.1:${this.#port}"\njetstream { store_dir: "${join(this.#folder, 'store')}"\n${this.#jetstream} }\n${this.#config}\n`,
    );
    const child = spawn(this.#installed.path, ['-c', path], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#process = child;
    let log = '';
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`nats-server was not ready in time: ${log}`)), 60_000);
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`nats-server ended with ${code}: ${log}`)));
      child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
        if (log.length < 65_536) log += chunk;
        if (!log.includes('Server is ready')) return;
        clearTimeout(late);
        resolve();
      });
    });
    child.removeAllListeners('exit');
  }

  /** Sends SIGKILL, or another signal. Resolves when the server is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await within(gone, 'nats-server to end');
  }

  /** Kills it and removes its store. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }

  /** Removes every stream, and with them all buckets and consumers. */
  async empty(): Promise<void> {
    const connection = await connect({ servers: this.url });
    try {
      const manager = await jetstreamManager(connection);
      for await (const name of manager.streams.names()) await manager.streams.delete(name);
    } finally {
      await connection.close();
    }
  }

  /** Stops and continues it: a broker that is there but does not answer. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal);
  }
}
