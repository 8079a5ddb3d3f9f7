/**
 * The real opencode and codex as MCP clients of a host, each with the entry that `handfast mcp config` writes, against a scripted
 * model: the model asks for a tool of the host, which runs there under the principal of the token, and reads its result.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ModelRequest, type ScriptedRound, startModelServer } from '../../src/testing/model-server.ts';
import { plainEnvironment, type User } from '../cli/command.ts';
import { PATIENCE_MS, runningHost, userWith } from '../mcp-endpoint/support.ts';
import { codexProgram, skip as noCodex } from './codex.ts';
import { skip as noOpencode, opencodeProject } from './opencode.ts';

const tools = fileURLToPath(new URL('../support/mcp-tools.mjs', import.meta.url));

/** Writes the entry of a client of a host that runs; gives the environment in which the client finds the command. */
async function configured(t: TestContext, client: string, home: Readonly<Record<string, string>>) {
  const user = userWith(t, [{ use: 'tools' }, { use: tools }]);
  const { ready } = await runningHost(user);
  const programs = join(user.folder, 'bin');
  mkdirSync(programs);
  const words = user.line([]).map((word) => `'${word}'`);
  writeFileSync(join(programs, 'handfast'), `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`);
  chmodSync(join(programs, 'handfast'), 0o755);
  const to = ['--connect', ready.url, '--token-file', 'token'];
  const { code, stderr } = await user.run(['mcp', 'config', client, '--write', ...to], { env: home });
  assert.equal(code, 0, stderr);
  const env = plainEnvironment({ ...home, PATH: `${programs}:${process.env.PATH}` });
  return { user, env };
}

interface Offered {
  readonly type?: string;
  readonly name?: string;
  readonly function?: { readonly name?: string };
  readonly tools?: readonly Offered[];
}

/** Returns the tool as the client offers it to its model: under another name, or in a group. */
function shoutIn(offered: readonly Offered[]): { name: string; namespace?: string } | undefined {
  for (const { type, name = '', function: described, tools: grouped = [] } of offered) {
    const own = described?.name ?? name;
    if (type !== 'namespace' && own.endsWith('shout')) return { name: own };
    const inner = shoutIn(grouped);
    if (inner !== undefined) return { ...inner, namespace: name };
  }
  return undefined;
}

/** Rounds for which a model waits until its client has started the server. */
const MAX_ROUNDS = 100;

/**
 * Starts a model that asks for the tool `shout`, and answers when it has the result; returns it with the results that
 * it received.
 */
function shouting(resultsIn: (body: ModelRequest['body']) => string[]) {
  const results: string[] = [];
  let rounds = 0;
  const otherwise = ({ body }: ModelRequest): ScriptedRound => {
    if (body.tools === undefined) return { text: 'a title' };
    results.push(...resultsIn(body));
    rounds += 1;
    if (results.some((result) => result.includes('QUIET')) || rounds > MAX_ROUNDS) return { text: 'It is done.' };
    const tool = shoutIn(body.tools);
    const id = `c${rounds}`;
    if (tool !== undefined) return { tool_calls: [{ id, ...tool, input: { text: 'quiet' } }] };
    return { delay_ms: 200, tool_calls: [{ id, name: 'list_mcp_resources', input: {} }] };
  };
  return { results, otherwise };
}

/** Returns the lines of a host's audit that name the tool. */
function auditOf(user: User): Record<string, unknown>[] {
  const files = readdirSync(user.home, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /audit.*\.jsonl$/.test(name),
  );
  const lines = files.flatMap((name) => readFileSync(join(user.home, name), 'utf8').split('\n'));
  return lines.filter((line) => line.includes('"shout"')).map((line) => JSON.parse(line));
}

const run = promisify(execFile);

test('opencode calls a tool of a host by the entry that the command wrote', { skip: noOpencode }, async (t) => {
  const { results, otherwise } = shouting((body) =>
    body.messages.filter(({ role }: { role: string }) => role === 'tool').map((said: unknown) => JSON.stringify(said)),
  );
  await using model = await startModelServer({ otherwise });
  using project = opencodeProject(model.baseUrl('chat'));
  const { command, env: home } = project.agent;
  const { user, env } = await configured(t, 'opencode', home as Record<string, string>);
  const words = ['run', '--model', 'scripted/m', 'Shout quiet.'];
  const ran = run(command, words, { cwd: project.folder, env, timeout: 2 * PATIENCE_MS });
  ran.child.stdin?.end();
  const { stdout } = await ran;
  assert.match(stdout, /It is done/);
  assert.match(results.join(), /QUIET/);
  assert.deepEqual([...new Set(auditOf(user).map(({ principal }) => principal))], ['boss']);
});

test('codex calls a tool of a host by the entry that the command wrote', { skip: noCodex }, async (t) => {
  const { results, otherwise } = shouting((body) =>
    body.input
      .filter(({ type }: { type: string }) => type === 'function_call_output')
      .map((said: unknown) => JSON.stringify(said)),
  );
  await using model = await startModelServer({ otherwise });
  const user = userWith(t, []);
  const home = join(user.folder, 'codex');
  mkdirSync(join(home, '.codex'), { recursive: true });
  const { command, args, env: own } = codexProgram(model.baseUrl('responses'), home);
  const { user: host, env } = await configured(t, 'codex', own);
  const words = ['exec', ...args, '--skip-git-repo-check', '-m', 'm', 'Shout quiet.'];
  const ran = run(command, words, { cwd: user.cwd, env, timeout: 2 * PATIENCE_MS });
  ran.child.stdin?.end();
  const { stdout } = await ran;
  assert.match(stdout, /It is done/);
  assert.match(results.join(), /QUIET/);
  assert.deepEqual([...new Set(auditOf(host).map(({ principal }) => principal))], ['boss']);
});
