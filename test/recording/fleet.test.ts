/**
 * A session of a fleet, recorded between a worker and its orchestrator (both real, each a separate process): two runs
 * are compared, the orchestrator is replayed to a worker, and the worker to an orchestrator.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { listen } from 'handfast';
import { replayedHost } from 'handfast/testing';
import { messageOf } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import type { Json } from '../cli/command.ts';
import { type Fleet, fleet } from '../cli/fleet-bench.ts';

const ends: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of ends) await end();
});

let bench: Fleet;
let address: string;
before(async () => {
  bench = await fleet({ after: (end) => void ends.push(end) });
  address = bench.ready.listeners[0];
  await record('one', address);
  await record('two', address);
});

/** Hands in a task that only the recorded worker can do, and waits for its result. */
async function task(say = 'seen'): Promise<void> {
  const brief = `read README.md and say "${say}"`;
  const { code, stderr } = await bench.user.run([
    ...['task', 'submit', brief, '--access', 'read', '--require', 'oddity', '--wait'],
  ]);
  assert.equal(code, 0, stderr);
}

/** Starts a worker of this orchestrator without any earlier work. */
const worker = (to: string, home: string) =>
  bench.user.start(
    [
      ...['worker', '--join', to, '--id', 'remote', '--executor', 'rehearsal', '--repo', bench.repo, '--json'],
      ...['--tool', 'oddity', '--token-file', bench.ready.token_file],
    ],
    { env: { HANDFAST_HOME: join(bench.user.folder, home) } },
  );

/** Records a worker that does one task and stops. */
async function record(name: string, orchestrator: string, say?: string): Promise<void> {
  const flags = ['--connect', orchestrator, '--listen', 'tcp://127.0.0.1:0', '--json'];
  const recorder = bench.user.start(['record', '--out', name, ...flags]);
  await recorder.says('\n');
  const joined = worker(JSON.parse(recorder.stdout).address, name);
  await joined.says('"ready":true');
  await task(say);
  joined.child.kill('SIGINT');
  await joined.ended();
  recorder.child.kill('SIGINT');
  const { code, stderr } = await recorder.ended();
  assert.equal(code, 0, stderr);
}

const read = (name: string) => readBundle(join(bench.user.cwd, name));

test('announce, dispatch and result are recorded, without the token', () => {
  const { manifest, entries } = read('one');
  const types = entries.flatMap((entry) => ('from' in entry ? [`${entry.from} ${messageOf(entry)?.type}`] : []));
  const wanted = ['client SESSION_ANNOUNCE', 'host SESSION_ACCEPT', 'host TASK_DISPATCH', 'client TASK_RESULT'];
  assert.deepEqual(
    types.filter((type, at) => wanted.includes(type) && types.indexOf(type) === at),
    wanted,
  );
  assert.deepEqual([manifest.protocol, manifest.edges], ['fleet', ['fleet']]);
  assert.match(JSON.stringify(messageOf(entries[1]!)), /"token":"\[redacted:value:local_token:1\]"/);
});

test('two runs of one task are the same', async () => {
  const { code, stdout, stderr } = await bench.user.run(['diff', 'one', 'two', '--all']);
  assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: 'no difference that matters\n', stderr: '' });
});

test('a worker with another result is found out at its place', async () => {
  await record('other', address, 'unseen');
  const { code, stdout } = await bench.user.run(['diff', 'one', 'other', '--all', '--json']);
  assert.equal(code, 1);
  const places = (JSON.parse(stdout).divergences as Json[]).map(({ type, path }) => `${type} ${path}`);
  assert.ok(places.includes('TASK_DISPATCH /brief'), places.join());
  assert.ok(places.includes('TASK_RESULT /prose'), places.join());
});

test('the orchestrator is replayed to a worker, which does the recorded task again', async () => {
  await using replayed = replayedHost(join(bench.user.cwd, 'one'));
  await using listener = await listen(replayed, 'tcp://127.0.0.1:0');
  const joined = worker(listener.address, 'replayed');
  // The announce, the acknowledgement of the task, and its result.
  for (const give = AbortSignal.timeout(60_000); replayed.report.matched < 3; await pause(20)) give.throwIfAborted();
  joined.child.kill('SIGINT');
  await joined.ended();
  await listener.close();
  await replayed.assertPlayed();
});

test('the worker is replayed to an orchestrator, which takes its result', async () => {
  const played = bench.user.start([
    ...['replay', 'one', '--as', 'client', '--all', '--timeout', '60'],
    ...['--connect', address, '--token-file', bench.ready.token_file],
  ]);
  await task();
  const { code, stdout, stderr } = await played.ended();
  assert.deepEqual([code, stdout], [0, 'no difference that matters\n'], stderr);
  const [last] = await bench.json('task', 'ls');
  assert.deepEqual([last.state, last.worker], ['done', 'remote']);
});
