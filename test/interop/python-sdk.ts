/**
 * The path of the A2E Python SDK, and the start of its programs. No part of the SDK belongs to this project:
 * `npm run install-agents python-sdk` fetches it; without it these tests are skipped.
 *
 * - `A2E_PYTHON_SDK`: another checkout of the SDK, the folder that has `a2e/` in it
 * - `A2E_PYTHON`: a Python with the packages the SDK imports. Without it, a virtual environment is made below
 *   `node_modules/.cache`, once, with {@link PACKAGES} from the package index pip is configured for.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { virtualPython } from './virtual-python.ts';

/** Packages that importing the SDK needs; its other requirements belong to parts these tests do not use. */
const PACKAGES = ['pydantic', 'fastapi', 'uvicorn', 'requests'];

/** Far above the duration of any program of these tests; then it is killed and the test fails. */
const MAX_RUN_MS = 60_000;

const installed = join(import.meta.dirname, '../../node_modules/.cache/agents/a2e-python-sdk');

/** The checkout of the SDK; empty without one. */
export const checkout = process.env.A2E_PYTHON_SDK || (existsSync(installed) ? installed : '');

/** Reason why the SDK is not available, for `skip`; false when it is. */
export const skip: string | false =
  checkout === '' &&
  'run npm run install-agents python-sdk, or set A2E_PYTHON_SDK to a checkout of the A2E Python SDK, to run these tests';

let found: string | undefined;

/** Returns the Python to run, prepared on first use. Throws when the SDK cannot be imported with it. */
function python(): string {
  if (found !== undefined) return found;
  if (!existsSync(join(checkout, 'a2e', '__init__.py')))
    throw new Error(`A2E_PYTHON_SDK: no a2e package in ${checkout}`);
  const program = process.env.A2E_PYTHON || virtualPython('interop-python', PACKAGES);
  execFileSync(program, ['-c', 'import a2e, requests, uvicorn'], {
    env: environment(),
    stdio: 'pipe',
    timeout: 30_000,
  });
  found = program;
  return program;
}

/** Returns the environment additions that let Python find the SDK. */
export function environment(): Record<string, string> {
  return { ...(process.env as Record<string, string>), PYTHONPATH: checkout, PYTHONDONTWRITEBYTECODE: '1' };
}

/** Returns one of the `.py` files of this folder as a command line. */
export function commandOf(script: string, ...args: string[]): [string, ...string[]] {
  return [python(), join(import.meta.dirname, script), ...args];
}

/** A started program with its output. */
export interface Program {
  readonly child: ChildProcess;
  /** Returns everything it wrote to its stderr so far. */
  readonly stderr: () => string;
  /** Resolves with the next line of its stdout; rejects when it ends first. */
  line(): Promise<string>;
  /** Resolves with all further lines, once it has ended. */
  rest(): Promise<string[]>;
  /** Closes its stdin and kills it; resolves when it has ended. */
  stop(): Promise<void>;
}

/** Starts a program. It is killed after `maxMs`, {@link MAX_RUN_MS} by default. */
export function start(
  [command, ...args]: readonly [string, ...string[]],
  cwd?: string,
  maxMs: number = MAX_RUN_MS,
): Program {
  const child = spawn(command, args, {
    cwd,
    env: environment(),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: maxMs,
    killSignal: 'SIGKILL',
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // Reported by the waiter for a line, or for the exit code.
  child.on('error', (error) => {
    stderr += error.message;
  });
  child.stdin.on('error', () => {});
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    stderr: () => stderr,
    async line() {
      const { value, done } = await lines.next();
      if (done) throw new Error(`the program ended: ${stderr}`);
      return value;
    },
    async rest() {
      const all = [];
      for (let next = await lines.next(); !next.done; next = await lines.next()) all.push(next.value);
      await ended;
      return all;
    },
    async stop() {
      child.stdin.end();
      child.kill('SIGKILL');
      await ended;
    },
  };
}
