/**
 * F-104: a process that is killed with SIGKILL while its children run leaves none of them behind, also those that left
 * their group, forked twice, ignore SIGTERM or cleared their environment. Real processes on a real system, each test as
 * this user and, where this user may change it, as another one.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { allPids, carriers, statOf } from '../support/system-processes.ts';

/** The promise is ten seconds; a busy machine must not break the test. */
const LIMIT_MS = 60_000;
const NOBODY = 65_534;

const owner = fileURLToPath(new URL('./fixtures/child-owner.ts', import.meta.url));
const cli = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const hasProc = existsSync('/proc/self/stat');
const skip = !hasProc
  ? 'needs /proc to see what is left'
  : !['/usr/bin/setsid', '/bin/setsid'].some((path) => existsSync(path))
    ? 'needs setsid'
    : false;
const asOther = skip || (process.geteuid?.() === 0 ? false : 'only root can start processes as another user');

/** One process of the family: writes its id, then runs on. */
const MEMBER = `
[ "$3" = deaf ] && trap '' HUP INT TERM
echo $$ > "$1/$2.new" && mv "$1/$2.new" "$1/$2"
while :; do sleep 0.3; done
`;
/** All ways to stay behind; the last one is the child itself. */
const FAMILY = `
trap '' HUP INT TERM
member="sh $1/member.sh $1"
$member plain &
setsid $member left-group &
(setsid $member forked-twice &)
(setsid $member deaf-forked-twice deaf &)
env -i PATH="$PATH" $member no-environment deaf &
env -i PATH="$PATH" setsid $member left-without-environment deaf &
exec $member child deaf
`;
const NAMES = [
  'plain',
  'left-group',
  'forked-twice',
  'deaf-forked-twice',
  'no-environment',
  'left-without-environment',
  'child',
];

/** Returns a folder with the scripts that `uid` may write to. */
function makeFolder(t: TestContext, uid: number | undefined): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-orphans-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'member.sh'), MEMBER);
  writeFileSync(join(folder, 'family.sh'), FAMILY);
  mkdirSync(join(folder, 'home'));
  if (uid !== undefined) for (const path of ['.', 'home']) chownSync(join(folder, path), uid, uid);
  return folder;
}

interface Owner {
  readonly folder: string;
  readonly uid?: number | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a process that will have children. It is killed at the end of the test at the latest. */
function startOwner(t: TestContext, { folder, uid, env }: Owner, ...words: string[]): ChildProcess {
  const child = spawn(process.execPath, ['-C', 'handfast-source', ...words], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, HANDFAST_HOME: join(folder, 'home'), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(uid !== undefined && { uid, gid: uid }),
  });
  child.stdout?.resume();
  child.stdin?.on('error', () => {});
  t.after(() => child.kill('SIGKILL'));
  return child;
}

async function waitFor(what: string, ready: () => boolean): Promise<number> {
  const started = performance.now();
  while (!ready()) {
    if (performance.now() - started > LIMIT_MS) assert.fail(`waited too long for ${what}`);
    await delay(20);
  }
  return performance.now() - started;
}

interface Seen {
  readonly name: string;
  readonly pid: number;
  readonly start: string;
}

/** Returns the family once all of it runs. */
async function familyOf(t: TestContext, folder: string): Promise<Seen[]> {
  await waitFor('the family', () => NAMES.every((name) => existsSync(join(folder, name))));
  const family = NAMES.map((name) => {
    const pid = Number(readFileSync(join(folder, name), 'utf8'));
    return { name, pid, start: statOf(pid)?.start ?? '' };
  });
  // With any outcome, nothing of the test stays.
  t.after(() => {
    for (const one of running(family)) process.kill(one.pid, 'SIGKILL');
  });
  assert.equal(running(family).length, NAMES.length);
  return family;
}

/** Returns the running ones. Zombies do not count: the first process of a container may never collect them. */
const running = (family: readonly Seen[]): Seen[] =>
  family.filter(({ pid, start }) => {
    const stat = statOf(pid);
    return stat?.start === start && stat.state !== 'Z' && stat.state !== 'X';
  });
const zombies = (family: readonly Seen[]): number =>
  family.filter(({ pid, start }) => statOf(pid)?.start === start && statOf(pid)?.state === 'Z').length;

async function killed(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function allEnd(t: TestContext, family: readonly Seen[]): Promise<void> {
  const names = (): string =>
    running(family)
      .map(({ name }) => name)
      .join(', ');
  const took = await waitFor('the end of the family', () => names() === '').catch((error: unknown) => {
    throw new Error(`still running: ${names()}`, { cause: error });
  });
  t.diagnostic(`all ended after ${Math.round(took)} ms, ${zombies(family)} of them zombies`);
}

/** Returns the children of a process whose command line contains `text`. */
const childrenOf = (parent: number, text: string): number[] =>
  allPids().filter((pid) => {
    try {
      return statOf(pid)?.parent === parent && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text);
    } catch {
      return false;
    }
  });

function targetOf(pid: number | 'self', fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`);
  } catch {
    return undefined;
  }
}

const recordsIn = (folder: string): string[] => {
  const records = join(folder, 'home', 'children');
  return existsSync(records) ? readdirSync(records) : [];
};

/** Starts a host on pipes with one call of its shell tool, `c1`. */
function startHost(t: TestContext, at: Owner, call: Readonly<Record<string, unknown>>): ChildProcess {
  const plugins = 'plugins:\n  - use: tools\n    options: { shell: true }\n';
  writeFileSync(join(at.folder, 'handfast.yaml'), `${plugins}limits: { shutdown_timeout_ms: 1000 }\n`);
  const host = startOwner(t, at, cli, 'stdio', '--config', join(at.folder, 'handfast.yaml'));
  for (const message of [
    { type: 'handshake/req', id: 'h1', a2e: '1.0', agent_id: 'a', agent_caps: ['tools'] },
    { type: 'tool/call/req', id: 'c1', tool_name: 'shell', arguments: call },
  ]) {
    host.stdin?.write(`${JSON.stringify(message)}\n`);
  }
  return host;
}

/** Starts a host on pipes whose shell tool runs the family. */
const startShell = (t: TestContext, at: Owner): ChildProcess =>
  startHost(t, at, { argv: ['sh', join(at.folder, 'family.sh'), at.folder] });

interface ShellReply {
  readonly data: { readonly data: { readonly timed_out: boolean; readonly descendants?: string } };
}

/** Returns the reply of a host to a request. */
async function replyOf(host: ChildProcess, id: string): Promise<ShellReply> {
  for await (const line of createInterface({ input: host.stdout! })) {
    const message = JSON.parse(line);
    if (message.req_id === id && message.type !== 'event') return message;
  }
  return assert.fail('the host ended without a reply');
}

const kinds: Readonly<Record<string, (t: TestContext, at: Owner) => ChildProcess>> = {
  'the shell tool': startShell,
  ...Object.fromEntries(
    ['executor', 'probe', 'agent', 'host'].map((kind) => [
      { executor: 'an executor', probe: 'a probe of an MCP server', agent: 'an ACP agent', host: 'a host on pipes' }[
        kind
      ],
      (t: TestContext, at: Owner) => startOwner(t, at, owner, kind, 'sh', join(at.folder, 'family.sh'), at.folder),
    ]),
  ),
};

for (const [kind, start] of Object.entries(kinds)) {
  for (const uid of [undefined, NOBODY]) {
    const as = uid === undefined ? '' : ', as another user';
    test(`F-104: children of ${kind} end with their killed process${as}`, {
      skip: uid === undefined ? skip : asOther,
    }, async (t) => {
      const folder = makeFolder(t, uid);
      const child = start(t, { folder, uid });
      const family = await familyOf(t, folder);
      await killed(child);
      await allEnd(t, family);
      await waitFor('the removal of the record', () => recordsIn(folder).length === 0);
    });
  }
}

for (const kind of ['executor', 'probe', 'agent', 'host']) {
  test(`F-49: stopping ends all that the child of kind ${kind} has started`, { skip }, async (t) => {
    const folder = makeFolder(t, undefined);
    const child = startOwner(t, { folder }, owner, kind, 'sh', join(folder, 'family.sh'), folder);
    const family = await familyOf(t, folder);
    child.stdin?.write('stop\n');
    await allEnd(t, family);
    assert.equal(child.exitCode, null);
  });
}

/**
 * Scripts that start themselves twice, and so on, each with its user. The limit counts all processes of a user,
 * including ended ones that no process has waited for: so it is another user than this test's, and a different one each
 * time.
 */
const BOMBS = [
  ['in its group', 'sh bomb', NOBODY - 1],
  ['in sessions of their own', 'setsid sh bomb', NOBODY - 2],
] as const;
for (const [where, again, uid] of BOMBS) {
  test(`F-46: a program that starts processes without end, ${where}, ends whole`, { skip: asOther }, async (t) => {
    const folder = makeFolder(t, uid);
    const run = randomBytes(8).toString('hex');
    const command = `ulimit -p 80 2>/dev/null || ulimit -u 80 || exit; exec 2>/dev/null; sh bomb; sleep 60`;
    // Each leaves a byte behind when it starts: at the limit a shell that cannot fork ends, so few may be alive at a time.
    const started = join(folder, 'started');
    writeFileSync(join(folder, 'bomb'), `printf . >>started; ${again} & ${again} & sleep 60`);
    const host = startHost(t, { folder, uid }, { command, env: { RUN: run }, timeout_seconds: 3 });
    const reply = replyOf(host, 'c1');
    await waitFor('the processes', () => existsSync(started) && statSync(started).size >= 20);
    const { data } = (await reply).data;
    assert.equal(data.timed_out, true);
    const took = await waitFor('the end of all processes', () => carriers(run).length === 0);
    t.diagnostic(`none was left ${Math.round(took)} ms after the reply; descendants: ${data.descendants}`);
  });
}

test('F-104: at any moment a process is killed, none of its children stays', {
  skip,
  timeout: 300_000,
}, async (t) => {
  for (let round = 0; round < 6; round += 1) {
    const folder = makeFolder(t, undefined);
    const run = randomBytes(8).toString('hex');
    const script = 'setsid sleep 300 & (setsid sleep 300 &); sleep 0.05';
    const child = startOwner(t, { folder, env: { RUN: run } }, owner, 'many', 'sh', '-c', script);
    await waitFor('the first child', () => carriers(run).some((pid) => pid !== child.pid));
    await delay(randomInt(600));
    await killed(child);
    const took = await waitFor(`the end of all processes of round ${round}`, () => carriers(run).length === 0);
    t.diagnostic(`round ${round}: all ended after ${Math.round(took)} ms`);
  }
});

for (const [next, ...words] of [
  ['the first child of the next process', owner, 'host', 'sleep', '300'],
  ['the next host', cli, 'stdio'],
] as const) {
  test(`F-104: where the watcher was killed too, ${next} ends what is left`, { skip }, async (t) => {
    const folder = makeFolder(t, undefined);
    const child = startOwner(t, { folder }, owner, 'host', 'sh', join(folder, 'family.sh'), folder);
    const family = await familyOf(t, folder);
    const [watcher = 0] = childrenOf(child.pid!, 'handfast-watcher');
    assert.ok(watcher > 1);
    process.kill(watcher, 'SIGKILL');
    await killed(child);
    assert.equal(running(family).length, family.length);
    assert.equal(recordsIn(folder).length, 1);
    startOwner(t, { folder }, ...words);
    await allEnd(t, family);
  });
}

test('the watcher has nothing of its process open, and ends with one that ends in good order', { skip }, async (t) => {
  const folder = makeFolder(t, undefined);
  const host = startShell(t, { folder });
  const family = await familyOf(t, folder);
  const [watcher = 0] = childrenOf(host.pid!, 'handfast-watcher');
  // Descriptors that this test was started with are open in all processes below it.
  const inherited = (fd: string): boolean => Number(fd) > 2 && targetOf('self', fd) === targetOf(watcher, fd);
  const open = readdirSync(`/proc/${watcher}/fd`).filter((fd) => !inherited(fd));
  assert.deepEqual(open, ['0', '1', '2']);
  const before = statOf(watcher)?.start;
  const exited = once(host, 'exit');
  host.kill('SIGTERM');
  await exited;
  await allEnd(t, family);
  await waitFor('the end of the watcher', () => statOf(watcher)?.start !== before || statOf(watcher)?.state === 'Z');
  assert.deepEqual(recordsIn(folder), []);
});
