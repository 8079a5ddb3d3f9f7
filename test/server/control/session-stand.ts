/**
 * A whole server whose model says the texts of the test, and a client of its sessions.
 */
import assert from 'node:assert/strict';
import { readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { serve } from '../../../src/server/serve.ts';
import { type ModelServer, type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import { connectTcp } from '../../../src/transport/socket.ts';
import { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

export interface Started {
  readonly model: ModelServer;
  readonly peer: RpcPeer;
  readonly folder: string;
  readonly tcp: string;
  readonly token: string;
  /** Starts it again, with other further members where they are given. */
  restart(more?: string): Promise<Started>;
  /** Gives the configuration other further members, and reads the rights in it again. */
  reload(more: string): Promise<void>;
}

/**
 * Starts one.
 * @param control further lines of `control` of its configuration
 * @param more further members of its configuration
 */
export async function started(
  t: TestContext,
  control = '',
  more = '',
  given: { folder?: string; model?: ModelServer; token?: string; rules?: string } = {},
): Promise<Started> {
  const { rules = '[{ when: "true", then: allow }]' } = given;
  const folder = given.folder ?? realpathSync(temporaryFolder(t));
  const model = given.model ?? (await startModelServer());
  if (given.model === undefined) t.after(() => model[Symbol.asyncDispose]());
  const providers = `providers: { keyring: false, compatible: { base_url: "${model.baseUrl('chat')}", models: [small] } }`;
  const write = (members: string): void =>
    writeFileSync(
      join(folder, 'handfast.yaml'),
      `listen: ["tcp://127.0.0.1:0"]\ncontrol:\n  model: compatible/small\n  approvals: { rules: ${rules} }\n${control}\n${providers}\n${members}`,
    );
  write(more);
  const load = () => loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const server = await serve(await load(), { announce: false, reread: load });
  t.after(() => server.close(0));
  const [tcp = ''] = server.listeners;
  const token = given.token ?? readFileSync(server.tokenFile as string, 'utf8').trim();
  const peer = new RpcPeer(await connectTcp(tcp));
  t.after(() => peer.close());
  await peer.call('rpc.handshake', { token });
  const restart = async (members = more) => {
    await peer.close();
    await server.close(0);
    return started(t, control, members, { ...given, folder, model });
  };
  const reload = async (members: string) => {
    write(members);
    await server.reload?.();
  };
  return { model, peer, folder, tcp, token, restart, reload };
}

/** Runs one turn to its end; gives the requests that the model got in it. */
export async function turn(
  { model, peer }: Pick<Started, 'model' | 'peer'>,
  session_id: string,
  text: string,
  rounds: readonly ScriptedRound[],
) {
  const before = model.requests.length;
  const ends = ended(peer, session_id).length;
  model.play(rounds);
  await peer.call('session.send', { session_id, text });
  await peer.recorder.until(() => ended(peer, session_id).length > ends, 'the end of the turn');
  const end = ended(peer, session_id).at(-1);
  assert.equal(end?.type, 'session.completed', JSON.stringify(end?.payload));
  return model.requests.slice(before).map(({ body }) => body);
}

const ENDS = ['session.completed', 'session.failed', 'session.interrupted'];
const ended = (peer: RpcPeer, session: string) =>
  peer.events.filter(({ type, payload }) => ENDS.includes(type) && payload.session_id === session);

export const create = async (peer: RpcPeer, params: object = {}): Promise<string> =>
  ((await peer.call('session.create', params)).session_id ?? '') as string;

/** The tools of a request. */
// biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
export const names = (body: any): string[] => body.tools.map((tool: any) => tool.function.name);
export const call = (name: string, input: object, id = name): ScriptedRound => ({
  tool_calls: [{ id, name, input }] as never,
});
