/**
 * Runs tests: `node test/run.ts [--all] [FOLDER | FILE]…`
 *
 * - Without words (`npm test`): types, lint and generated files, then every test but `*.slow.test.ts`.
 * - `--all` (`npm run test:all`): every test but those of browsers and of other implementations, which have commands of their own.
 * - Folders and files (`npm test -- test/journal src/wire/frame.ts`): the tests in them, slow ones too.
 *
 * Files share a process, because starting one and importing the sources costs more than most files' tests. A slow file has a process of
 * its own, and so has one that changes or measures its process ({@link ALONE}). A file that ends its process is named, and the files
 * behind it run in another.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';

const root = join(import.meta.dirname, '..');

/** Where tests are, and which of them other commands run. */
const TESTS = 'test/**/*.test.ts';
const ELSEWHERE = /^test\/(?:browser|interop)\//;
const SLOW = /\.slow\.test\.ts$/;

/** Code that changes or measures the process it runs in, or a comment that asks for a process. */
const ALONE =
  /\bprocess\.(?:chdir|umask|on|once|emit|memoryUsage|cpuUsage|resourceUsage|getActiveResourcesInfo)\(|\bglobalThis\.\w+ = |\bmonitorEventLoopDelay\b|\beventLoopUtilization\b|\bgc\(|^\/\/ A process of its own: /m;

/** Files that share a process. More would save little, and leave less to balance. */
const SHARED = 10;

/** Processes at once: most tests wait most of their time. */
const PROCESSES = 3 * availableParallelism();

/** The program of a process that runs files. */
const GROUP = join(root, 'test/runner/group.ts');

/** The sums of the last lines. */
const counts = { tests: 0, suites: 0, passed: 0, failed: 0, cancelled: 0, skipped: 0, todo: 0, topLevel: 0 };

/** Lines about the tests that were skipped, so that a run which left something out does not look complete. */
const skipped: string[] = [];

/** Milliseconds of each file. */
const times = new Map<string, number>();

const words = process.argv.slice(2);
const files = filesOf(words);
const checked =
  words.length > 0 ||
  spawnSync('npm', ['run', '--silent', 'check:sources'], { cwd: root, stdio: 'inherit' }).status === 0;
const begun = performance.now();
const output = new spec();
output.pipe(process.stdout);
const groups = groupsOf(files).values();
await Promise.all(
  Array.from({ length: PROCESSES }, async () => {
    for (const group of groups) await runGroup(group);
  }),
);
summarize();

/** Paths of test files, from the root of the repository. */
function filesOf(named: readonly string[]): string[] {
  const all = globSync(TESTS, { cwd: root }).sort();
  const names = named.filter((word) => word !== '--all');
  if (names.length > 0) return [...new Set(names.flatMap((name) => testsOf(name, all)))];
  return all.filter((path) => !ELSEWHERE.test(path) && (named.length > 0 || !SLOW.test(path)));
}

/** The tests of a folder or file; `src/a/b.ts` stands for `test/a/b.test.ts` and `test/a/b/`, or else for `test/a/`. */
function testsOf(name: string, all: readonly string[]): string[] {
  const path = relative(root, resolve(name));
  if (/\.test\.m?[jt]s$/.test(path) && existsSync(join(root, path))) return [path];
  const named = path.replace(/^src\b/, 'test').replace(/\.ts$/, '');
  for (let stem = named; stem === named || stem.includes('/'); stem = dirname(stem)) {
    const found = all.filter(
      (file) => file.startsWith(`${stem}/`) || file.replace(/(?:\.slow)?\.test\.ts$/, '') === stem,
    );
    if (found.length > 0) return found;
  }
  console.error(`no test has the name of ${name}, and its folder has none`);
  return process.exit(2);
}

/** Groups of files, each for one process; those that take longest first. */
function groupsOf(paths: readonly string[]): string[][] {
  const slow = paths.filter((path) => SLOW.test(path));
  const rest = paths.filter((path) => !SLOW.test(path));
  const alone = rest.filter((path) => ALONE.test(readFileSync(join(root, path), 'utf8')));
  const shared = rest.filter((path) => !alone.includes(path));
  const groups = Array.from({ length: Math.ceil(shared.length / SHARED) }, (_, at) =>
    shared.slice(at * SHARED, (at + 1) * SHARED),
  );
  return [...[...slow, ...alone].map((path) => [path]), ...groups];
}

/** Runs files in one process, and those behind a file that ended it in a next one. */
async function runGroup(group: readonly string[]): Promise<void> {
  for (let left = group; left.length > 0; ) left = left.slice(await runProcess(left));
}

/** Runs files in one process. Returns how many of them are done: all, or those up to the one that ended the process. */
async function runProcess(paths: readonly string[]): Promise<number> {
  const execArgv = ['-C', 'handfast-source', '--import', join(root, 'test/preload.ts')];
  let done = 0;
  let failures = 0;
  // The output has one file after the other, although several processes report.
  let events: TestEvent[] = [];
  const flush = () => {
    for (const event of events) output.write(event);
    events = [];
    failures = 0;
  };
  for await (const event of run({
    files: [GROUP],
    argv: [...paths],
    cwd: root,
    execArgv,
  }) as AsyncIterable<TestEvent>) {
    const { type, data } = event;
    if (type === 'test:summary') {
      if (data.file === undefined) add(data.counts);
    } else if (type === 'test:stdout' || type === 'test:stderr') {
      events.push(event);
    } else if (data === undefined || !('nesting' in data)) {
      // An event of watching or coverage.
    } else if (
      data.nesting > 0 ||
      ('name' in data ? data.name !== GROUP : type === 'test:diagnostic' && data.file !== undefined)
    ) {
      events.push(event);
      if (type !== 'test:pass' && type !== 'test:fail') continue;
      if (data.skip !== undefined && data.skip !== false) skipped.push(skipLine(data));
      if (type === 'test:fail' && data.details.type !== 'suite') failures += 1;
      if (data.nesting > 0) continue;
      // A file that cannot be imported, or whose hook fails, counts as a failed test.
      if (type === 'test:fail' && failures === 0) counts.failed += 1;
      counts.suites -= 1;
      times.set(data.name, data.details.duration_ms);
      done += 1;
      flush();
    } else if (type === 'test:fail') {
      const name = paths[done] ?? `one of ${paths.join(', ')}`;
      events.push({ type, data: { ...data, name, file: join(root, name) } });
      flush();
      done += 1;
    }
  }
  flush();
  return Math.max(done, 1);
}

/** The types leave out `failed`. */
function add(found: object): void {
  for (const name of Object.keys(counts) as (keyof typeof counts)[]) counts[name] += Reflect.get(found, name) as number;
}

function skipLine({ name, file, skip }: { name: string; file?: string; skip?: string | boolean }): string {
  const why = typeof skip === 'string' && skip !== '' ? skip : 'no reason was given';
  return `- ${name} (${file === undefined ? 'unknown file' : relative(root, file)}): ${why}\n`;
}

/** The last lines: the usual ones of the test runner, the files that took longest, and the tests that were skipped. */
function summarize(): void {
  const duration_ms = performance.now() - begun;
  const { tests, suites, passed, failed, cancelled, todo } = counts;
  const lines = { tests, suites, pass: passed, fail: failed, cancelled, skipped: counts.skipped, todo, duration_ms };
  for (const [name, value] of Object.entries(lines)) {
    output.write({ type: 'test:diagnostic', data: { nesting: 0, message: `${name} ${value}`, level: 'info' } });
  }
  const success = checked && failed + cancelled === 0 && tests > 0;
  output.end({ type: 'test:summary', data: { success, counts, duration_ms, file: undefined } });
  output.on('end', () => {
    const longest = [...times].sort(([, a], [, b]) => b - a).slice(0, 10);
    console.log(`\nlongest: ${longest.map(([path, ms]) => `${path} ${(ms / 1000).toFixed(1)} s`).join(', ')}`);
    console.log(skipped.length === 0 ? '\nno test was skipped' : `\nskipped ${skipped.length}:\n${skipped.join('')}`);
    if (!checked) console.log('types, lint or generated files are not right: npm run check:sources');
  });
  process.exitCode = success ? 0 : 1;
}
