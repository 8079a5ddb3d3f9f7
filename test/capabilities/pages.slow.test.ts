/**
 * The reference pages of the capabilities with state: each command line in them is run by a shell against a host, in the
 * order of the page, and each configuration in them is loaded. Their TypeScript is cut from examples, which
 * `test/readme.test.ts` compares and `test/examples.slow.test.ts` runs.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { commandsBelow, wordsOf } from '../../src/cli/examples.ts';
import { commandLine } from '../../src/cli/program.ts';
import { loadConfig } from '../../src/config/config.ts';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';

const pages = ['memory', 'learning', 'planning', 'env', 'environments', 'skill', 'toolkits', 'mcp'].map((name) => ({
  name,
  text: readFileSync(join(root, 'docs', `${name}.md`), 'utf8'),
}));

/** Lines that need resources which this test lacks, and the test that has them. */
const elsewhere: Readonly<Record<string, string>> = {
  'handfast env serve-gym CartPole-v1': 'test/capabilities/env/gym-bridge.test.ts: a Python with gymnasium',
  'handfast mcp login tracker                 # prints the address to open, and opens a browser where there is one':
    'test/mcp/sign-in.test.ts: a person with a browser',
  'handfast mcp login tracker --no-browser    # e.g. over SSH: open it elsewhere, then paste the address the browser ends at':
    'the same',
  'handfast mcp logout tracker                # revokes the sign-in where the server can, and forgets it': 'the same',
  'handfast env check gym/MountainCarContinuous-v0': 'test/capabilities/env/check/gym-check.test.ts: the same',
};

/**
 * Returns the plugin of the first configuration of docs/mcp.md: its server from npm as it is installed here, the other one
 * unreachable.
 */
function mcpOfPage(): object {
  const text = pages.find(({ name }) => name === 'mcp')?.text ?? '';
  const [, yaml = ''] = /^```yaml\n(.*?)^```$/ms.exec(text) ?? [];
  const plugin = parse(yaml).plugins.find(({ use }: { use?: string }) => use === 'mcp');
  const [everything, tracker] = plugin.options.servers;
  const [, name] = everything.args;
  everything.command = process.execPath;
  everything.args = [fileURLToPath(import.meta.resolve(`${name}/dist/index.js`)), 'stdio'];
  tracker.url = 'http://127.0.0.1:1/mcp';
  return plugin;
}

/** Returns the command lines of a page in their order: of fenced blocks, and between backticks. */
function linesOf(text: string): string[] {
  const lines: string[] = [];
  for (const [, fenced, span] of text.matchAll(/^(?:\$ )?(handfast .*)$|`(handfast [^`\n]+)`/gm)) {
    lines.push((fenced ?? span ?? '').trim());
  }
  return lines;
}

/** Returns true if a line shows the syntax of a command, or names it, and is no call of it. */
async function isReference(line: string): Promise<boolean> {
  if (/[<[]/.test(line.replace(/#.*/, ''))) return true;
  const words = line.split(' ').slice(1);
  const found = commandsBelow(await commandLine(async () => {}))
    .filter((command) => `${words.join(' ')} `.startsWith(`${wordsOf(command)} `))
    .at(-1);
  if (found === undefined) return false;
  const given = words.length - wordsOf(found).split(' ').length;
  return given === 0 && found.registeredArguments.some(({ required }) => required);
}

describe('the pages', { timeout: 360_000 }, () => {
  const user = new User();
  after(() => user.leave());
  let env: Record<string, string>;
  let ready: Awaited<ReturnType<User['up']>>['ready'];

  before(async () => {
    const bin = join(user.folder, 'bin');
    mkdirSync(bin);
    const words = user.line([]).map((word) => `'${word}'`);
    writeFileSync(join(bin, 'handfast'), `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`);
    chmodSync(join(bin, 'handfast'), 0o755);
    env = user.environment({ PATH: `${bin}${delimiter}${process.env.PATH}` });
    const skill = { use: 'skill', options: { roots: ['./skills'] } };
    const names = ['tools', 'env', 'learning', 'memory', 'planning', 'toolkits'];
    const plugins = JSON.stringify([...names, skill, mcpOfPage()]);
    const config = user.write('host.yaml', `plugins: ${plugins}\n`);
    ({ ready } = await user.up(['--config', config], { env: { TRACKER_TOKEN: 'a token of the tracker' } }));
  });

  /** Runs a line as a shell does, with empty standard input. */
  async function run(line: string): Promise<{ readonly code: number; readonly output: string }> {
    const child = spawn('bash', ['-o', 'pipefail', '-c', line], { cwd: user.cwd, env, detached: true });
    const late = setTimeout(() => child.pid && process.kill(-child.pid, 'SIGKILL'), 60_000);
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    child.stdin.end();
    const [code] = (await once(child, 'close')) as [number];
    clearTimeout(late);
    return { code, output };
  }

  for (const { name, text } of pages) {
    test(`each command line of docs/${name}.md does what it says`, async (t) => {
      const problems: string[] = [];
      let count = 0;
      let id = '';
      for (const line of linesOf(text)) {
        if (elsewhere[line] !== undefined || (await isReference(line))) continue;
        const { code, output } = await run(line.replace('5f0c1f6f9c2b4d0ea9f6b1a7c3d2e410', id));
        id = /learning reward ([0-9a-f]{32})/.exec(output)?.[1] ?? id;
        count += 1;
        if (code !== 0) problems.push(`${line}: ${code}: ${output}`);
      }
      assert.deepEqual(problems, []);
      t.diagnostic(`${count} lines`);
      assert.ok(count > 0 || name === 'environments');
    });

    test(`each configuration of docs/${name}.md loads`, async () => {
      chmodSync(user.write('ci.token', 'a token of more than sixteen characters'), 0o600);
      copyFileSync(join(root, 'examples', 'environment.ts'), join(user.cwd, 'environment.ts'));
      const problems: string[] = [];
      const secrets = { BUILDER_TOKEN: 'another token of more than sixteen characters' };
      for (const [, yaml] of text.matchAll(/^```yaml\n(.*?)^```$/gms)) {
        const file = user.write('page.yaml', yaml as string);
        const loaded = await loadConfig(file, { env: { HANDFAST_HOME: user.home, ...secrets }, cwd: user.cwd }).catch(
          (error) => ({
            warnings: [{ message: error.message }],
          }),
        );
        problems.push(...loaded.warnings.map(({ message }) => message));
      }
      assert.deepEqual(problems, []);
    });
  }

  test('the program of the quick start of docs/mcp.md runs', async () => {
    const text = pages.find(({ name }) => name === 'mcp')?.text ?? '';
    const [, code = ''] = /^```ts\n(.*?)^```$/ms.exec(text) ?? [];
    const token = readFileSync(ready.token_file as string, 'utf8').trim();
    const connected = code
      .replace("'http://127.0.0.1:4700', {", `'${ready.url}', { token: '${token}',`)
      .concat('console.log(JSON.stringify([data, same.data]));\n');
    const file = join(root, 'test', `page-${process.pid}.ts`);
    writeFileSync(file, `import { connect } from 'handfast';\n${connected}`);
    try {
      const { code: exit, output } = await run(`${process.execPath} -C handfast-source ${file}`);
      const echoed = { content: [{ type: 'text', text: 'Echo: hello' }] };
      assert.deepEqual([exit, output.trim()], [0, JSON.stringify([echoed, echoed])]);
    } finally {
      rmSync(file);
    }
  });

  test('a line that is run elsewhere is on a page', () => {
    const all = new Set(pages.flatMap(({ text }) => linesOf(text)));
    assert.deepEqual(
      Object.keys(elsewhere).filter((line) => !all.has(line)),
      [],
    );
  });
});
