/**
 * The tiers that are processes: the actions of a skill in them, how they are tried, that nothing of a run is left behind it, the view of
 * the workspace. `escapes.slow.test.ts` has the actions that they stop.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { checkTier } from '../../../src/capabilities/skill/check.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { below, isLauncher } from './sandbox-run.ts';
import { agentOf, errorOf, put, skillHost, skipTier, tierFacts, until, writeSkill } from './support.ts';

const TIERS = ['process', 'bubblewrap'] as const;
const HOST = fileURLToPath(new URL('./tier-host.ts', import.meta.url));

/** A program that closes a sandbox in which a process waits, and has nothing else to do. Usage: `<tier>` */
const CLOSING = `
import { ProcessSandbox } from ${JSON.stringify(new URL('../../../src/capabilities/skill/sandbox/process.ts', import.meta.url).href)};
const sandbox = new ProcessSandbox({
  tier: process.argv[1],
  warm: 1,
  memoryBytes: 64 * 1024 * 1024,
  maxMessageChars: 1024 * 1024,
  maxSeconds: 30,
  path: process.env.PATH,
});
await sandbox.probe();
await sandbox.close();`;

const WORK = `import { twice } from './lib/twice.js';
import { basename } from 'node:path';
export default async ({ a }, skill) => {
  console.log('adding', { a });
  process.stdout.write('printed\\n');
  await new Promise((resolve) => setTimeout(resolve, 1));
  const { sum } = await skill.tool('add', { a, b: 2 });
  const denied = await skill.tool('secret').catch(({ code }) => code);
  return { sum, twice: twice(sum), note: skill.resource('note ä.txt'), name: basename('/x/y'), denied };
};`;

/** Returns true for a running process; a zombie does not count. */
const isRunning = (pid: number): boolean => existsSync(`/proc/${pid}/stat`) && !/\) Z /.test(statOf(pid));

function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return ') Z ';
  }
}

for (const tier of TIERS) {
  test(`in ${tier} a skill has its modules, those of Node, timers, granted tools and its own result`, {
    timeout: 120_000,
    ...skipTier(tier),
  }, async (t) => {
    const site = await skillHost(t, { skill: { tier } });
    const folder = writeSkill(site.root, 'work', { front: 'allowed-tools: add', code: WORK });
    put(join(folder, 'lib/twice.js'), `import { two } from '../two%20.js'; export const twice = (x) => two * x;`);
    put(join(folder, 'two .js'), 'export const two = 2;');
    put(join(folder, 'note ä.txt'), 'a note');
    writeSkill(site.root, 'bare', { code: `import 'lodash'; export default () => 1;` });
    writeSkill(site.root, 'absent', { code: `import './gone.js'; export default () => 1;` });
    writeSkill(site.root, 'later', {
      code: `export default () => { setTimeout(() => { throw new Error('too late'); }, 1); return new Promise((resolve) => setTimeout(resolve, 60_000)); };`,
    });
    const agent = await agentOf(t, site);
    const call = agent.skill.call('work', { a: 40 });
    const events: unknown[] = [];
    for await (const { kind, data } of call) events.push([kind, data]);
    const result = await call;
    assert.deepEqual(result.data, { sum: 42, twice: 84, note: 'a note', name: 'y', denied: 'tool_denied' });
    assert.deepEqual([result.tier, site.called], [tier, ['add by local']]);
    const logs = events.flatMap((event) => ((event as [string])[0] === 'log' ? [event] : []));
    assert.deepEqual(
      logs.map((event) => JSON.stringify(event)).sort(),
      ['adding {"a":40}', 'printed'].map((message) => JSON.stringify(['log', { level: 'info', message }])),
    );
    assert.deepEqual(await tierFacts(t, site), { ...(await tierFacts(t, site)), tier, in_force: true });
    await until(() => agent.skill.sandbox?.in_force === true);
    const [finding] = await checkTier({ tier });
    assert.deepEqual([finding?.status, agent.skill.sandbox?.tier], ['ok', tier]);
    assert.match((await errorOf(agent.skill.call('bare'))).message, /the skill has no module lodash/);
    assert.match((await errorOf(agent.skill.call('absent'))).message, /the skill has no file gone\.js/);
    const late = await errorOf(agent.skill.call('later'));
    assert.deepEqual([late.code, late.message], ['skill_error', 'too late']);
  });

  test(`in ${tier} nothing of a run is left: behind a cancel, a deadline, the end of the host, its kill`, {
    timeout: 180_000,
    skip: skipTier(tier).skip ?? (existsSync('/proc/self/stat') ? false : 'needs /proc to see what is left'),
  }, async (t) => {
    const endless = 'export default async (_, skill) => { await skill.event("runs"); for (;;); };';
    const site = await skillHost(t, { skill: { tier, warm: 0 } });
    writeSkill(site.root, 'endless', { code: endless });
    const agent = await agentOf(t, site);
    const stop = new AbortController();
    const call = agent.skill.call('endless', {}, { signal: stop.signal });
    for await (const { kind } of call) if (kind === 'runs') break;
    const mine = await below(process.pid);
    assert.ok(mine.length > 0);
    stop.abort();
    assert.equal((await errorOf(call)).code, 'cancelled');
    assert.equal((await errorOf(agent.skill.call('endless', {}, { timeoutMs: 5_000 }))).code, 'timeout');
    // The processes that start and watch over children stay.
    await until(() =>
      mine.every((pid) => !isRunning(pid) || isLauncher(pid) || /^\d+ \((?:sh|grep)\)/.test(statOf(pid))),
    );

    const root = temporaryFolder(t);
    writeSkill(root, 'endless', { code: endless });
    writeSkill(root, 'brief', { code: 'export default (_, skill) => skill.event("runs");' });
    const start = async (skill: string) => {
      const host = spawn(process.execPath, ['-C', 'handfast-source', HOST, tier, root, skill], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, HANDFAST_HOME: temporaryFolder(t) },
      });
      t.after(() => host.kill('SIGKILL'));
      const ended = once(host, 'exit');
      const lines = createInterface(host.stdout)[Symbol.asyncIterator]();
      assert.equal((await lines.next()).value, 'runs');
      return { host, ended };
    };
    for (const how of ['SIGTERM', 'SIGKILL'] as const) {
      const { host } = await start('endless');
      const its = await below(host.pid as number);
      assert.ok(
        its.some((pid) => /^\d+ \((?:node|MainThread)/.test(statOf(pid))),
        its.map(statOf).join(''),
      );
      host.kill(how);
      await until(() => its.every((pid) => !isRunning(pid)));
    }
    // A process that waits for its skill does not hold open a host that has nothing else to do.
    assert.deepEqual(await (await start('brief')).ended, [0, null]);
    // Closing the sandbox is awaited to its end: Node exits with 13 when nothing is left that could settle a wait.
    const closing = spawn(process.execPath, ['-C', 'handfast-source', '--input-type=module', '-e', CLOSING, tier], {
      stdio: 'inherit',
    });
    t.after(() => closing.kill('SIGKILL'));
    assert.deepEqual(await once(closing, 'exit'), [0, null]);
  });
}

test('a tier that does not work runs no code, and says why and what to install', { timeout: 120_000 }, async (t) => {
  const refusal = async (path: string): Promise<[string, string]> => {
    const site = await skillHost(t, { skill: { tier: 'bubblewrap', env: { PATH: path } } });
    writeSkill(site.root, 'code', { code: 'export default () => 1;' });
    writeSkill(site.root, 'text');
    const agent = await agentOf(t, site);
    const { code, detail } = await errorOf(agent.skill.call('code'));
    assert.deepEqual([code, detail.tier], ['skill.no_sandbox', 'bubblewrap']);
    // It needs no sandbox.
    assert.match(JSON.stringify((await agent.skill.call('text')).data), /Do it/);
    const { in_force, reason } = await tierFacts(t, site);
    assert.equal(in_force, false);
    await until(() => agent.skill.sandbox?.in_force === false);
    const [finding] = await checkTier({ tier: 'bubblewrap' }, { PATH: path });
    assert.deepEqual([finding?.status, finding?.message.endsWith(String(reason))], ['fail', true]);
    return [String(detail.reason), String(reason)];
  };
  const empty = temporaryFolder(t);
  const [missing, said] = await refusal(empty);
  assert.match(missing, process.platform === 'linux' ? /apt-get install bubblewrap/ : /needs Linux/);
  assert.equal(said, missing);
  if (process.platform !== 'linux') return;
  // As in containers that forbid it.
  const fake = join(empty, 'bwrap');
  writeFileSync(fake, '#!/bin/sh\necho "bwrap: No permissions to create a new namespace" >&2\nexit 1\n');
  chmodSync(fake, 0o755);
  const [forbidden] = await refusal(empty);
  assert.match(forbidden, /^bwrap: No permissions.*unprivileged user namespaces/);
  // One that only seems to confine.
  writeFileSync(
    fake,
    '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift 2\nexec "$NODE" "$@"\n'.replace('$NODE', process.execPath),
  );
  const [open] = await refusal(empty);
  assert.match(open, /^bubblewrap leaves open: files/);
});

test('a skill reads the workspace where the configuration shows it, without what is protected from its caller', {
  timeout: 120_000,
  ...skipTier('bubblewrap'),
}, async (t) => {
  const workspace = temporaryFolder(t);
  mkdirSync(join(workspace, 'secrets'));
  writeFileSync(join(workspace, 'note.txt'), 'a note');
  writeFileSync(join(workspace, 'secrets/key.txt'), 'a secret');
  writeFileSync(join(workspace, 'token.txt'), 'a token');
  const site = await skillHost(t, {
    workspace,
    pathGuard: new PathGuard([
      { path: join(workspace, 'secrets'), kind: 'folder', deny: 'all' },
      { path: join(workspace, 'token.txt'), kind: 'file', deny: 'all' },
    ]),
    principals: [
      { name: 'boss', admin: true },
      { name: 'guest', capabilities: ['skill'] },
    ],
    skill: { tier: 'bubblewrap', view: 'workspace' },
  });
  writeSkill(site.root, 'reads', {
    code: `import { readFileSync, writeFileSync } from 'node:fs';
      const attempt = (action) => { try { return action(); } catch { return 'refused'; } };
      export default ({ folder }) => [
        ...['note.txt', 'secrets/key.txt', 'token.txt'].map((name) => attempt(() => readFileSync(folder + '/' + name, 'utf8') || 'refused')),
        attempt(() => readFileSync('/etc/passwd')),
        attempt(() => writeFileSync(folder + '/new.txt', '')),
      ];`,
  });
  const read = async (name: string) => {
    const agent = await agentOf(t, site, name);
    return (await agent.skill.call<string[]>('reads', { folder: workspace })).data;
  };
  assert.deepEqual(await read('guest'), ['a note', 'refused', 'refused', 'refused', 'refused']);
  assert.deepEqual(await read('boss'), ['a note', 'a secret', 'a token', 'refused', 'refused']);
  assert.ok(!existsSync(join(workspace, 'new.txt')));
});
