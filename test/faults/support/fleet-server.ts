/**
 * A real server with a fleet whose configuration the test writes, and workers that follow the test's script, over real
 * links. For the tests of row F-96 of the fault catalogue.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Log } from '../../../src/base/log.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { connect } from '../../../src/control.ts';
import type { FleetMessage } from '../../../src/protocol/fleet.ts';
import { serve } from '../../../src/server/serve.ts';
import type { Link } from '../../../src/transport/link.ts';
import { connectWebSocket } from '../../../src/transport/websocket.ts';
import { Recorder } from '../../contract/recorder.ts';
import { type ScriptedOptions, ScriptedWorker } from '../../fleet/support/scripted-worker.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

export const ADMIN = 'the-token-of-an-administrator-here';
export const tokenOf = (name: string): string => `the-token-of-${name}-0123456789`;
/** Returns a line of `auth.tokens`. */
export const named = (name: string, grants: string): string =>
  `    - { name: ${name}, token: ${tokenOf(name)}, ${grants} }\n`;

/** A worker that follows the test's script, over one link. */
export interface RawWorker {
  readonly link: Link;
  readonly recorder: Recorder;
  send(message: FleetMessage): void;
  /** Resolves with the reason in the goodbye with which its link ended. */
  farewell(): Promise<unknown>;
  /** Resolves with the first message of this type, past or later, for which `fits` returns true. */
  next<T extends FleetMessage['type']>(
    type: T,
    fits?: (message: Extract<FleetMessage, { readonly type: T }>) => boolean,
  ): Promise<Extract<FleetMessage, { readonly type: T }>>;
}

/** An event of a task. */
export interface FollowedEvent {
  readonly kind: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Starts the server. `tokens`: lines of `auth.tokens`; `fleetYaml`: more lines of `fleet.yaml`. */
export async function startFleet(t: TestContext, tokens: string, fleetYaml = '') {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const write = (text: string): void =>
    writeFileSync(file, `auth:\n  tokens:\n    - { name: root, token: ${ADMIN}, admin: true }\n${text}`);
  write(tokens);
  const fixed = 'data_dir: data\nlisten: http://127.0.0.1:0\njoin_grace_s: 3600\n';
  writeFileSync(join(folder, 'fleet.yaml'), `${fixed}${fleetYaml}`);
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  const fleet = await loadFleetConfig('fleet.yaml', surroundings);
  const load = async () => {
    const host = await loadConfig(file, surroundings);
    const control = { ...host.control, enabled: true, dataDir: join(fleet.dataDir, 'sessions') };
    return { ...host, listen: fleet.listen, control };
  };
  const lines: { message: string; fields: Record<string, unknown> | undefined }[] = [];
  const note = (message: string, fields?: Record<string, unknown>) => void lines.push({ message, fields });
  const log = { debug() {}, info() {}, warn: note, error: note } as Log;
  const begin = async () => serve(await load(), { fleet, announce: false, log, reread: load });
  let server = await begin();
  t.after(() => server.close(0));
  const as = async (token: string) => {
    const control = await connect(server.url as string, { token });
    t.after(() => control.close());
    return control;
  };
  const orchestrator = () => {
    assert.ok(server.fleet !== undefined);
    return server.fleet.orchestrator;
  };
  return {
    folder,
    lines,
    get url() {
      return server.url as string;
    },
    get orchestrator() {
      return orchestrator();
    },
    as,
    /** Returns the stored events of a task, as an administrator reads them. */
    async events(taskId: string): Promise<readonly FollowedEvent[]> {
      const root = await as(ADMIN);
      const { entries } = (await root.call('fleet.task.follow', { task_id: taskId })) as { entries: FollowedEvent[] };
      return entries;
    },
    async reload(text: string) {
      write(text);
      const headers = { authorization: `Bearer ${ADMIN}` };
      const { status } = await fetch(`${server.url}/reload`, { method: 'POST', headers });
      assert.equal(status, 200);
    },
    /** Ends the server and starts another on the same data. */
    async restart() {
      await server.close(0);
      server = await begin();
    },
    async worker(token: string, options: ScriptedOptions & { readonly pools?: readonly string[] } = {}) {
      const announce = await new ScriptedWorker(options).announce();
      const link = await connectWebSocket(`${(server.url as string).replace('http', 'ws')}/ws`);
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
        async next(type, fits = () => true) {
          const found = () => recorder.messages.find((one) => one.type === type && fits(one as never));
          await recorder.until(() => found() !== undefined, type);
          return found() as never;
        },
      };
      return raw;
    },
  };
}

export type FleetStand = Awaited<ReturnType<typeof startFleet>>;

/** Resolves when the condition holds; it is asked again and again, for a minute. */
export async function eventually(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const until = Date.now() + 60_000; Date.now() < until; ) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`waited for ${what}`);
}
