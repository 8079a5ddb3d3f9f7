/**
 * The real `codex exec`, `opencode run` and `opencode acp` as executors of a worker that lends an environment, against scripted
 * models: each finds the tools of the environment, calls one in the folder of its task, and loses them with the end of the task.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadWorkerConfig } from '../../src/config/fleet-config.ts';
import type { ExecutorConfig } from '../../src/fleet/executors/config.ts';
import { makeExecutor } from '../../src/fleet/executors/make.ts';
import { lendEnvironments } from '../../src/server/fleet/task-environments.ts';
import { type ModelRequest, startModelServer } from '../../src/testing/model-server.ts';
import { spawnLink } from '../../src/transport/subprocess.ts';
import { fakeContext, fakeLog, taskOf } from '../fleet/executors/fake-context.ts';
import { codexProgram, skip as withoutCodex } from './codex.ts';
import { makeRepository } from './git-repository.ts';
import { opencodeProject, skip as withoutOpencode } from './opencode.ts';

const SECRET = 'the word of the file is apricot';

/** Returns a model that calls the environment's tool that reads files, then repeats the text it read. */
async function model() {
  const read = (tools: unknown[] | undefined): { name: string; namespace?: string } | undefined => {
    for (const tool of (tools ?? []) as {
      name?: string;
      function?: { name: string };
      type: string;
      tools?: unknown[];
    }[]) {
      const name = tool.function?.name ?? tool.name ?? '';
      if (tool.tools !== undefined) {
        const found = read(tool.tools);
        if (found !== undefined) return { ...found, namespace: name };
      } else if (name.includes('read_file')) return { name };
    }
    return undefined;
  };
  return startModelServer({
    otherwise: ({ body }: ModelRequest) => {
      const said = JSON.stringify(body.input ?? body.messages);
      if (said.includes(SECRET)) return { text: `I read: ${SECRET}` };
      if (body.tools === undefined) return { text: 'a title' };
      const tool = read(body.tools);
      if (tool === undefined) return { text: `no tool: ${JSON.stringify(body.tools).slice(0, 3000)}` };
      return { text: 'I read it.', tool_calls: [{ id: 'c1', ...tool, input: { path: 'word.txt' } }] };
    },
  });
}

/** Runs one task of an executor with an environment, and returns its reply. */
async function run(folder: string, home: string, config: ExecutorConfig): Promise<string> {
  writeFileSync(join(folder, 'word.txt'), SECRET);
  const file = join(home, 'worker.yaml');
  writeFileSync(file, `id: w\nrepo: ${folder}\ndata_dir: ${join(home, 'data')}\nexecutor: codex\nenvironment: {}\n`);
  const { config: worker } = await loadWorkerConfig(file);
  const log = fakeLog();
  const lent = await lendEnvironments(worker, { log, version: '1', env: { HANDFAST_HOME: join(home, 'handfast') } });
  const executor = makeExecutor(config, { home: join(home, 'worker'), log, start: spawnLink });
  try {
    const dispatch = { access: 'write', environment_capabilities: null, environment_tools: null } as const;
    const opened = await lent.open({ taskId: 't-1', attempt: 1, cwd: folder, dispatch });
    assert.ok(opened !== undefined);
    const context = { ...fakeContext(folder), environment: opened.server };
    const { text, failure } = await executor.start(taskOf('Read the word.'), context).outcome;
    assert.equal(failure, undefined);
    const audit = join(worker.dataDir, 'environment', 'audit.jsonl');
    await opened.close();
    await lent.close();
    const lines = readFileSync(audit, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.ok(lines.some(({ task, tool, outcome }) => task === 't-1' && tool === 'read_file' && outcome === 'ok'));
    assert.ok(!log.lines.join('\n').includes(opened.server.token));
    return text;
  } finally {
    await executor.stop();
    await lent.close();
  }
}

test('codex reads a file with a tool of the environment', { skip: withoutCodex }, async () => {
  await using scripted = await model();
  // Not in the system's folder of temporary files, which its sandbox lets every command write.
  const top = mkdtempSync('/var/tmp/handfast-codex-');
  try {
    const [folder, home] = [join(top, 'repo'), join(top, 'home')];
    makeRepository(folder);
    mkdirSync(join(home, '.codex'), { recursive: true });
    const program = codexProgram(scripted.baseUrl('responses'), home);
    assert.match(await run(folder, home, { kind: 'codex', model: 'm', ...program }), /apricot/);
  } finally {
    rmSync(top, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
});

for (const kind of ['opencode', 'acp'] as const) {
  test(`opencode reads a file with a tool of the environment, as ${kind}`, { skip: withoutOpencode }, async () => {
    await using scripted = await model();
    using project = opencodeProject(scripted.baseUrl('chat'));
    makeRepository(project.folder);
    const { command, args, env } = project.agent;
    const config: ExecutorConfig =
      kind === 'acp'
        ? {
            kind,
            command: String(command),
            args: [...(args ?? [])],
            permissions: 'allow',
            env: env as Record<string, string>,
          }
        : { kind, command: String(command), env: env as Record<string, string> };
    assert.match(await run(project.folder, String(env?.HOME), config), /apricot/);
  });
}
