/**
 * Checks `README.md`: its TypeScript is cut from the examples, its terminal sessions run against a host, its
 * configuration loads, and every command and flag that any page names exists in the command line.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { loadConfig } from 'handfast/host';
import { filesBelow, root } from './rules/scan.ts';
import { regionOf } from './support/regions.ts';

const PATIENCE_MS = 120_000;

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const readme = read('README.md');
const manifest = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>;
  exports: Record<string, Record<string, string>>;
};
const condition = Object.keys(manifest.exports['.'] as object)[0] as string;

const home = mkdtempSync(join(tmpdir(), 'handfast-readme-'));
after(() => rmSync(home, { recursive: true }));

/** The command line of the sources, for a separate user: the keys and settings of the user that runs this are not visible. */
const words = ['-C', condition, 'src/cli/main.ts'];
const { PATH, NODE_COMPILE_CACHE } = process.env;
const surroundings = {
  cwd: root,
  env: { PATH, NODE_COMPILE_CACHE, HOME: home, HANDFAST_HOME: home, HANDFAST_KEYRING: 'off' },
};
const handfast = (...args: string[]) =>
  promisify(execFile)(process.execPath, [...words, ...args], {
    ...surroundings,
    timeout: PATIENCE_MS,
    killSignal: 'SIGKILL',
  });

/** Returns the text of each fenced block of a language. */
function blocks(page: string, language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map((match) => match[1]!);
}

test('the README is short', () => {
  assert.ok(readme.split('\n').length <= 240, 'what does not fit belongs to a page of its own');
});

test('every piece of TypeScript in the README and the pages for authors is a region of an example', () => {
  const capabilities = ['memory', 'learning', 'planning', 'env', 'environments', 'chains'].map(
    (name) => `docs/${name}.md`,
  );
  for (const path of ['README.md', 'docs/tools.md', 'docs/agents.md', ...capabilities]) {
    const page = read(path);
    const marked = [...page.matchAll(/<!-- (examples\/[\w-]+\.ts): ([\w-]+) -->\n```ts\n(.*?)\n```/gs)];
    assert.equal(
      marked.length,
      blocks(page, 'ts').length,
      `${path}: a snippet without the comment that says where it is from`,
    );
    for (const [, file, name, shown] of marked) {
      assert.equal(shown, regionOf(read(file!), name!), `${path} shows an old ${name} of ${file}`);
    }
  }
});

test('every optional package is named, and a command on each row of the README', () => {
  const { peerDependencies } = JSON.parse(read('package.json')) as { peerDependencies: Record<string, string> };
  const named = [...read('docs/packages.md').matchAll(/^\|(.*?)\|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map((match) => match[1]!),
  );
  assert.deepEqual(named.sort(), Object.keys(peerDependencies).sort());
  const commands = readme.slice(readme.indexOf('## Commands'), readme.indexOf('## Transports'));
  const rows = [...commands.matchAll(/^\| (`handfast.*?) \|/gm)].map((match) => match[1]!);
  assert.ok(rows.length >= 12);
  assert.deepEqual(
    rows.filter((row) => !/^`[^`]+`$/.test(row)),
    [],
  );
});

test('the configuration of the README loads without problems or warnings', async () => {
  const [yaml, ...others] = blocks(readme, 'yaml');
  assert.deepEqual(others, []);
  symlinkSync(join(root, 'examples'), join(home, 'examples'));
  writeFileSync(join(home, 'handfast.yaml'), yaml!);
  const env = { CI_TOKEN: 'a token of more than sixteen characters', HANDFAST_HOME: home };
  const config = await loadConfig(join(home, 'handfast.yaml'), { env, cwd: home });
  assert.deepEqual(config.warnings, []);
  assert.equal(config.auth.grants[0]?.principal.name, 'ci');
  assert.deepEqual(
    config.plugins.map(({ builtin }) => builtin),
    [true, false],
  );
});

/** One command of a terminal session with its output on the page. */
interface Shown {
  readonly command: string;
  readonly output: string;
}

function sessions(page: string): Shown[] {
  return blocks(page, 'console').flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((text) => {
        const [command = '', ...lines] = text.split('\n');
        return { command, output: lines.join('\n').trimEnd() };
      }),
  );
}

/**
 * Returns a pattern for the text on a page: `…` stands for any text within a line, numbers of processes and ports for
 * any number.
 */
function patternOf(output: string, port: string): RegExp {
  const escaped = output.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(
    `^${escaped
      .replaceAll('…', '[^\\n]*')
      .replaceAll('4700', port)
      .replace(/process \d+/, 'process \\d+')}\\s*$`,
  );
}

/** Starts the host of `npm start`, on a free port; resolves with all it prints until it is ready. */
async function started(): Promise<{ child: ChildProcess; printed: string; port: string }> {
  const child = spawn(process.execPath, [...words, 'up', '--port', '0'], {
    ...surroundings,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const late = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  let printed = '';
  // Both, because only the order of the lines matters to a reader.
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream! }).on('line', (line) => {
      printed += `${line}\n`;
      if (line.startsWith('Ctrl-C')) child.emit('ready');
    });
  }
  await Promise.race([once(child, 'ready'), once(child, 'exit')]);
  clearTimeout(late);
  return { child, printed, port: /127\.0\.0\.1:(\d+)/.exec(printed)?.[1] ?? 'none' };
}

test('the terminal sessions of the README print what it shows', async () => {
  const shown = sessions(readme);
  assert.ok(manifest.scripts.start?.endsWith('src/cli/main.ts up'), '"npm start" is the host of the README');
  assert.ok(manifest.scripts.handfast?.endsWith('src/cli/main.ts'), 'the alias of the README is this script');
  const { child, printed, port } = await started();
  try {
    let run = 0;
    for (const { command, output } of shown) {
      if (command === 'handfast up') assert.match(printed, patternOf(output, port));
      else if (command.startsWith('handfast ')) {
        run += 1;
        const { stdout } = await handfast(...command.split(' ').slice(1));
        assert.match(stdout, patternOf(output, port), command);
      } else assert.ok(command === 'npm install' || command.startsWith('alias handfast='), `what is "${command}"?`);
    }
    assert.ok(run >= 3);
  } finally {
    child.kill('SIGINT');
    const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode];
    assert.equal(code, 0, 'the host ends in good order');
  }
});

/** The help of each command by its words, as `docs/cli.md` has it, which is generated from the command line. */
const helps = new Map(
  [...read('docs/cli.md').matchAll(/^## handfast ?([^\n]*)\n\n```text\n(.*?)^```$/gms)].map(([, words, help]) => [
    words!,
    help!,
  ]),
);

/** Returns the help of a command, by its words. */
const helpOf = (path: readonly string[]): string => helps.get(path.join(' ')) ?? '';

/** Returns the commands that a help text lists. */
function subcommands(help: string): string[] {
  const listed = /^Commands:\n((?: .*\n|\n)*)/m.exec(help)?.[1] ?? '';
  return [...listed.matchAll(/^ {2}(\w[\w-]*)/gm)].map((match) => match[1]!);
}

/** Returns the problem of a command line that a page names; undefined when it has none. */
function problemOf(line: string): string | undefined {
  const rest = line.split(/\s+/).slice(1);
  const path: string[] = [];
  let help = helpOf(path);
  while (subcommands(help).length > 0) {
    const given = rest[path.length];
    // A group may have a default, which its help names.
    const [, usual] = /^Without a further word .*"handfast .*?([\w-]+)"/m.exec(help) ?? [];
    const next = given === undefined || given.startsWith('-') ? usual : given;
    if (next === undefined || !subcommands(help).includes(next)) return `has no command ${next ?? ''}`;
    path.push(next);
    help = helpOf(path);
  }
  const flags = rest.filter((word) => word.startsWith('--')).map((word) => word.replace(/[=\W]*$/, '').split('=')[0]!);
  const unknown = flags.filter((flag) => !new RegExp(`${flag}\\b`).test(help));
  return unknown.length === 0 ? undefined : `has no ${unknown.join(', ')}`;
}

test('every command and flag that a page names exists', () => {
  // The page of the example package names commands of that package; its own test runs them.
  const elsewhere = /^(?:test|examples\/capability-package)\//;
  const pages = filesBelow('').filter((path) => path.endsWith('.md') && !elsewhere.test(path));
  const named = new Map<string, string>();
  for (const page of pages) {
    const text = read(page);
    for (const [, span] of text.matchAll(/`((?:stdio:)?handfast [^`\n]+)`/g))
      named.set(span!.replace('stdio:', ''), page);
    for (const { command } of sessions(text)) if (command.startsWith('handfast ')) named.set(command, page);
  }
  assert.ok(named.size >= 15, `only ${named.size} commands found`);
  const problems: string[] = [];
  for (const [line, page] of named) {
    const problem = problemOf(line);
    if (problem !== undefined) problems.push(`${page}: ${line}: ${problem}`);
  }
  assert.deepEqual(problems, []);
});

test('a command or flag that does not exist is noticed', () => {
  assert.match(problemOf('handfast tols ls') ?? '', /no command tols/);
  assert.match(problemOf('handfast tools') ?? '', /no command/);
  assert.match(problemOf('handfast up --prot 1') ?? '', /no --prot/);
  assert.equal(problemOf('handfast up --port 1'), undefined);
});
