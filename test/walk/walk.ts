/**
 * Walks a host: sends it one message after the other and measures the longest turn of its event loop for each, beside
 * that of a bare loop of the same run. One that took too long is sent again: only one that always does is a finding.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

/** The promise of the project, in milliseconds. */
const LONGEST_MS = 50;
/** The bound on a slow machine, as a multiple of the usual longest turn of a bare loop there. */
const TIMES_BARE = 10;
/** Longest ping of a neighbour, in milliseconds; the wire and two other processes are in it. */
const LONGEST_PING_MS = 250;
const TRIES = 5;

export const ADMIN = 'walker-0123456789abcdef0123456789abcdef';
export const OTHER = 'neighbour-0123456789abcdef0123456789ab';

export interface WalkedHost {
  readonly folder: string;
  readonly http: string;
  readonly tcp: string;
  /** Resolves with the longest turn since its last call, in milliseconds. */
  take(): Promise<number>;
  /** Resolves with the longest ping of a neighbour, and the longest turn of its loop, since its last call. */
  neighbour(): Promise<{ readonly ping: number; readonly bare: number }>;
}

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

async function started(t: TestContext, name: string, args: readonly string[], options: object): Promise<ChildProcess> {
  const child = fork(script(name), args, {
    execArgv: ['-C', 'handfast-source', '--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    ...options,
  });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  return child;
}

/** Resolves with the next message of a child. */
async function told<T>(child: ChildProcess): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const gone = (): void => reject(new Error('the process has ended'));
  child.once('message', resolve as (message: unknown) => void);
  child.once('exit', gone);
  try {
    return await promise;
  } finally {
    child.off('exit', gone);
  }
}

function asked<T>(child: ChildProcess, question: string): Promise<T> {
  const answer = told<T>(child);
  child.send(question);
  return answer;
}

export interface WalkedFiles {
  /** Added to the configuration of the host. */
  readonly yaml?: string;
  /** A fleet, as `fleet.yaml` has it. */
  readonly fleet?: string;
  /** Files of the workspace. */
  readonly files?: Readonly<Record<string, string>>;
}

/** Starts a host with everything, and its neighbour. Both end with the test. */
export async function walkedHost(t: TestContext, { yaml = '', fleet, files = {} }: WalkedFiles): Promise<WalkedHost> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-walk-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  const workspace = join(folder, 'workspace');
  mkdirSync(workspace);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(workspace, name, '..'), { recursive: true });
    writeFileSync(join(workspace, name), content);
  }
  const config = join(folder, 'handfast.yaml');
  writeFileSync(
    config,
    `workspace: ./workspace
listen: ["http://127.0.0.1:0", "tcp://127.0.0.1:0"]
auth:
  tokens:
    - { name: walker, token: ${ADMIN}, admin: true, grants: {} }
    - { name: neighbour, token: ${OTHER}, roles: [agent] }
${yaml}`,
    { mode: 0o600 },
  );
  const args = [config];
  if (fleet !== undefined) {
    args.push(join(folder, 'fleet.yaml'));
    writeFileSync(join(folder, 'fleet.yaml'), fleet);
  }
  const home = join(folder, 'home');
  const env = { ...process.env, HANDFAST_HOME: home, HOME: folder, NODE_OPTIONS: '' };
  const host = await started(t, './walked-host.ts', args, { cwd: folder, env });
  const { listeners } = await told<{ listeners: string[] }>(host);
  const [http = '', tcp = ''] = listeners;
  const neighbour = await started(t, './neighbour.ts', [tcp, OTHER, `${host.pid}`], {});
  await told(neighbour);
  return {
    folder,
    http,
    tcp,
    take: () => asked(host, 'take'),
    neighbour: () => asked(neighbour, 'take'),
  };
}

/** The effect of a message on its host. */
export interface Held {
  readonly title: string;
  /** The least of the longest turns of all tries, in milliseconds. */
  readonly ms: number;
  readonly ping: number;
}

export class Walk {
  readonly #host: WalkedHost;
  /** The longest turn of a bare loop during each message. */
  readonly #bare: number[] = [];
  /** Messages that were sent, tries left out. */
  sent = 0;
  readonly found: Held[] = [];
  /** The longest of all that is no finding. */
  longest: Held = { title: '', ms: 0, ping: 0 };

  readonly #longestMs: number;

  /** @param longestMs the bound of one message, or of many that arrive together */
  constructor(host: WalkedHost, longestMs = LONGEST_MS) {
    this.#host = host;
    this.#longestMs = longestMs;
  }

  /** Sends a message, again while it held the loop too long. `send` resolves when its reply is there. */
  async step(title: string, send: () => Promise<unknown>): Promise<void> {
    this.sent++;
    let ms = Number.POSITIVE_INFINITY;
    let ping = Number.POSITIVE_INFINITY;
    for (let tries = 0; tries < TRIES; tries++) {
      // Work that the message before it left behind does not count.
      await this.#host.take();
      await this.#host.neighbour();
      await send();
      const [turn, beside] = await Promise.all([this.#host.take(), this.#host.neighbour()]);
      this.#bare.push(beside.bare);
      ms = Math.min(ms, turn);
      ping = Math.min(ping, beside.ping);
      if (ms <= this.#most && ping <= this.#longestPing) break;
    }
    const held = { title, ms, ping };
    if (ms > this.#most || ping > this.#longestPing) this.found.push(held);
    else if (ms > this.longest.ms) this.longest = held;
  }

  get #most(): number {
    return Math.max(this.#longestMs, TIMES_BARE * this.#usual);
  }

  get #longestPing(): number {
    return Math.max((LONGEST_PING_MS / LONGEST_MS) * this.#longestMs, this.#most);
  }

  /** The median of the longest turns of a bare loop. */
  get #usual(): number {
    return this.#bare.toSorted((one, other) => one - other)[this.#bare.length >> 1] ?? 0;
  }

  /** Fails with everything that was found. */
  mustHaveHeldNobody(): void {
    if (process.env.WALK_REPORT !== undefined) console.log(this.sent, 'messages', this.found, this.longest);
    const lines = this.found.map(({ title, ms, ping }) => `${ms.toFixed(0)} ms (ping ${ping.toFixed(0)}): ${title}`);
    assert.deepEqual(lines, [], `the longest turn of a bare loop took ${this.#usual.toFixed(0)} ms mostly`);
  }
}
