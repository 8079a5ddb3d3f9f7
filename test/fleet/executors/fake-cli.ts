/**
 * A program that stands for a command-line agent: it plays recorded outputs, one a run, and writes down how it was started.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Behaviour of one run. */
export interface PlayedRun {
  /** Objects are written as a line of JSON each. */
  readonly stdout?: string | readonly unknown[];
  readonly stderr?: string;
  readonly code?: number;
  /** Does not end by itself after its output; `stubborn`: not by SIGTERM either. */
  readonly hangs?: true | 'stubborn';
  /** Ends by this after its output. */
  readonly killedBy?: NodeJS.Signals;
  /** Files it writes, below its folder. */
  readonly writes?: Readonly<Record<string, string>>;
}

/** Arguments, environment, folder and stdin of a run that was started. */
export interface Started {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The text that could be read from its stdin. */
  readonly stdin: string;
}

export interface FakeCli extends Disposable {
  /** Absolute path of the program. */
  readonly command: string;
  /** Folder in which it works, and folder in which it keeps things. */
  readonly cwd: string;
  readonly home: string;
  readonly runs: readonly Started[];
  /** Adds runs. When none is left it fails. */
  play(...runs: PlayedRun[]): void;
}

const PROGRAM = `
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
const folder = import.meta.dirname;
let stdin = '';
try { stdin = readFileSync(0, 'utf8'); } catch (error) { stdin = 'error ' + error.code; }
const started = { argv: process.argv.slice(2), env: process.env, cwd: process.cwd(), stdin };
let count = 0;
try { count = readFileSync(join(folder, 'started.jsonl'), 'utf8').split('\\n').length - 1; } catch {}
const run = JSON.parse(readFileSync(join(folder, 'script.json'), 'utf8'))[count] ?? { code: 99, stderr: 'nothing to play' };
if (run.hangs === 'stubborn') process.on('SIGTERM', () => {});
appendFileSync(join(folder, 'started.jsonl'), JSON.stringify(started) + '\\n');
for (const [path, text] of Object.entries(run.writes ?? {})) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}
if (run.hangs) setInterval(() => {}, 60_000);
const out = run.stdout ?? '';
process.exitCode = run.code ?? 0;
process.stderr.write(run.stderr ?? '');
const text = typeof out === 'string' ? out : out.map((frame) => JSON.stringify(frame) + '\\n').join('');
process.stdout.write(text, () => run.killedBy && process.kill(process.pid, run.killedBy));
`;

/** Makes the program with its first runs. */
export function fakeCli(...runs: PlayedRun[]): FakeCli {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'handfast-cli-'));
  const [command, cwd, home] = [join(folder, 'fake.mjs'), join(folder, 'repo'), join(folder, 'home')];
  mkdirSync(cwd);
  mkdirSync(home);
  writeFileSync(command, `#!${process.execPath}\n${PROGRAM}`);
  chmodSync(command, 0o755);
  const script: PlayedRun[] = [];
  const play = (...more: PlayedRun[]): void => {
    script.push(...more);
    writeFileSync(join(folder, 'script.json'), JSON.stringify(script));
  };
  play(...runs);
  return {
    command,
    cwd,
    home,
    play,
    get runs() {
      const file = join(folder, 'started.jsonl');
      if (!existsSync(file)) return [];
      // A line without its end is still being written.
      return readFileSync(file, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Started);
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
