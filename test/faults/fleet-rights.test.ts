/**
 * F-96: who may be a worker, and whose result counts. A real server with a fleet, and workers that speak over real links.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Log } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config/config.ts';
import { loadFleetConfig } from '../../src/config/fleet-config.ts';
import type { FleetMessage } from '../../src/protocol/fleet.ts';
import { serve } from '../../src/server/serve.ts';
import type { Link } from '../../src/transport/link.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { Recorder } from '../contract/recorder.ts';
import { type ScriptedOptions, ScriptedWorker } from '../fleet/support/scripted-worker.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const ADMIN = 'the-token-of-an-administrator-here';
const tokenOf = (name: string): string => `the-token-of-${name}-0123456789`;
const named = (name: string, grants: string): string => `    - { name: ${name}, token: ${tokenOf(name)}, ${grants} }\n`;

/** A worker that does only what the test says, over one link. */
interface RawWorker {
  readonly link: Link;
  readonly recorder: Recorder;
  send(message: FleetMessage): void;
  /** The reason of the goodbye its link ended with. */
  farewell(): Promise<unknown>;
  /** The first message of this type that comes, or came. */
  next(type: FleetMessage['type']): Promise<FleetMessage>;
}

async function started(t: TestContext, tokens: string) {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const write = (text: string): void =>
    writeFileSync(file, `auth:\n  tokens:\n    - { name: root, token: ${ADMIN}, admin: true }\n${text}`);
  write(tokens);
  writeFileSync(join(folder, 'fleet.yaml'), 'data_dir: data\nlisten: http://127.0.0.1:0\njoin_grace_s: 3600\n');
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  const fleet = await loadFleetConfig('fleet.yaml', surroundings);
  const load = async () => {
    const host = await loadConfig(file, surroundings);
    const control = { ...host.control, enabled: true, dataDir: join(fleet.dataDir, 'sessions') };
    return { ...host, listen: fleet.listen, control };
  };
  const lines: { message: string; fields: Record<string, unknown> | undefined }[] = [];
  const write1 = (message: string, fields?: Record<string, unknown>) => void lines.push({ message, fields });
  const log = { debug() {}, info() {}, warn: write1, error: write1 } as Log;
  const server = await serve(await load(), { fleet, announce: false, log, reread: load });
  t.after(() => server.close(0));
  const url = server.url as string;
  assert.ok(server.fleet !== undefined);
  return {
    url,
    orchestrator: server.fleet.orchestrator,
    lines,
    async reload(text: string) {
      write(text);
      const headers = { authorization: `Bearer ${ADMIN}` };
      const { status } = await fetch(`${url}/reload`, { method: 'POST', headers });
      assert.equal(status, 200);
    },
    async worker(token: string, options: ScriptedOptions & { readonly pools?: readonly string[] } = {}) {
      const announce = await new ScriptedWorker(options).announce();
      const link = await connectWebSocket(`${url.replace('http', 'ws')}/ws`);
      const recorder = Recorder.closing(link);
      t.after(() => link.destroy('the test has ended'));
      const send = (message: FleetMessage): void => link.send(JSON.stringify(message));
      const { pools } = options;
      send({ ...announce, worker: { ...announce.worker, ...(pools && { pools }) }, envelope: { token } });
      const raw: RawWorker = {
        link,
        recorder,
        send,
        async farewell() {
          await recorder.end();
          const last = recorder.messages.at(-1);
          return last?.type === 'SESSION_BYE' ? last.reason : undefined;
        },
        async next(type) {
          const found = () => recorder.messages.find((message) => message.type === type);
          await recorder.until(() => found() !== undefined, type);
          return found() as unknown as FleetMessage;
        },
      };
      return raw;
    },
  };
}

type Stand = Awaited<ReturnType<typeof started>>;
const peers = ({ orchestrator }: Stand): readonly string[] =>
  orchestrator.workers().flatMap(({ peer_id, status }) => (status === 'ready' ? [peer_id] : []));

test('F-96: a token without the grant is refused as a worker, with a goodbye and a line in the log', async (t) => {
  const stand = await started(t, named('ann', 'roles: [client, operator]'));
  const ann = await stand.worker(tokenOf('ann'), { agentId: 'ann' });
  assert.equal(await ann.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), []);
  const line = stand.lines.find(({ message }) => message.startsWith('a worker was refused'));
  assert.deepEqual([line?.fields?.principal, line?.fields?.grant], ['ann', 'fleet.worker']);
});

test('F-96: a token works as the names and in the pools it was granted, and as nothing else', async (t) => {
  const grants = 'fleet: { worker: [red, blue-*], pools: [fast] }';
  const stand = await started(t, `${named('builder', 'roles: [worker]')}${named('paint', grants)}`);
  const paint = (agentId: string, pools: readonly string[]) => stand.worker(tokenOf('paint'), { agentId, pools });
  await (await paint('blue-1', ['fast'])).next('SESSION_ACCEPT');
  assert.equal(await (await paint('green', ['fast'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', ['slow'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', ['fast', 'slow'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', [])).farewell(), 'unauthorized');
  const builder = await stand.worker(tokenOf('builder'), { agentId: 'somebody-important' });
  assert.equal(((await builder.next('SESSION_ACCEPT')) as { peer_id?: string }).peer_id, 'builder');
  const root = await stand.worker(ADMIN, { agentId: 'codex-1' });
  assert.equal(((await root.next('SESSION_ACCEPT')) as { peer_id?: string }).peer_id, 'codex-1');
  assert.deepEqual(peers(stand), ['blue-1', 'builder', 'codex-1']);
});

test('F-96: a link ends when the grant of its token is withdrawn, or the token is', async (t) => {
  const others = named('other', 'roles: [worker]');
  const stand = await started(
    t,
    `${named('builder', 'roles: [worker]')}${named('second', 'roles: [worker]')}${others}`,
  );
  const builder = await stand.worker(tokenOf('builder'), { agentId: 'builder' });
  const second = await stand.worker(tokenOf('second'), { agentId: 'second' });
  const other = await stand.worker(tokenOf('other'), { agentId: 'other' });
  for (const worker of [builder, second, other]) await worker.next('SESSION_ACCEPT');
  await stand.reload(`${named('builder', 'roles: [viewer]')}${others}`);
  assert.equal(await builder.farewell(), 'unauthorized');
  assert.equal(await second.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), ['other']);
  assert.equal(other.recorder.causes.length, 0);
});

test('F-96: an announce that names a pool beyond the grant ends the link', async (t) => {
  const stand = await started(t, named('w', 'fleet: { worker: [w], pools: [fast] }'));
  const worker = await stand.worker(tokenOf('w'), { agentId: 'w', pools: ['fast'] });
  await worker.next('SESSION_ACCEPT');
  const announce = await new ScriptedWorker({ agentId: 'w' }).announce();
  worker.send({ ...announce, worker: { ...announce.worker, pools: ['fast', 'secret'] } });
  assert.equal(await worker.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), []);
});
