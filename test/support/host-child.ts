/**
 * Starts `host-process.ts` as a child and requests its reports. For the fault tests and the soak.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { HostHealth } from '../../src/host/host.ts';
import type { HostLimits } from '../../src/host/host-limits.ts';

/** A report of the child about itself. */
export interface HostReport {
  readonly health: HostHealth;
  /** `process.getActiveResourcesInfo()` */
  readonly resources: readonly string[];
  readonly rssBytes: number;
  /** After a garbage collection where the child may ask for one. */
  readonly heapBytes: number;
  /** Processor time of its thread so far, in milliseconds. */
  readonly busyMs: number;
  /** Calls of a key that had been worked on before. */
  readonly repeated: number;
}

export interface HostChild {
  readonly tcp: string;
  readonly http: string;
  readonly webSocket: string;
  readonly child: ChildProcess;
  report(): Promise<HostReport>;
  /** Returns the resident memory right now, in bytes; 0 if the system does not report it. */
  rssBytes(): number;
  /** Returns the open files; 0 if the system does not report them. */
  files(): number;
  stop(): Promise<void>;
}

/** Starts the child; resolves when it listens. */
export async function startHostProcess(limits: Partial<HostLimits> = {}): Promise<HostChild> {
  const script = fileURLToPath(new URL('./host-process.ts', import.meta.url));
  const child = spawn(process.execPath, ['--expose-gc', script, JSON.stringify(limits)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [addresses] = (await once(child, 'message')) as [Pick<HostChild, 'tcp' | 'http' | 'webSocket'>];
  return {
    ...addresses,
    child,
    async report() {
      const answer = once(child, 'message');
      child.send('report');
      return (await answer)[0] as HostReport;
    },
    rssBytes() {
      try {
        const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
        return Number(kib) * 1024;
      } catch {
        return 0;
      }
    },
    files() {
      try {
        return readdirSync(`/proc/${child.pid}/fd`).length;
      } catch {
        return 0;
      }
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      if (child.connected) child.send('stop');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await exited;
      clearTimeout(timer);
    },
  };
}
