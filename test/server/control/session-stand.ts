/** A whole server whose model says what a test wrote down, and a client of its sessions. */
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
  restart(): Promise<Started>;
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
  const text = `listen: ["tcp://127.0.0.1:0"]\ncontrol:\n  model: compatible/small\n  approvals: { rules: ${rules} }\n${control}\n${providers}\n${more}`;
  writeFileSync(join(folder, 'handfast.yaml'), text);
  const config = await loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const server = await serve(config, { announce: false });
  t.after(() => server.close(0));
  const [tcp = ''] = server.listeners;
  const token = given.token ?? readFileSync(server.tokenFile as string, 'utf8').trim();
  const peer = new RpcPeer(await connectTcp(tcp));
  t.after(() => peer.close());
  await peer.call('rpc.handshake', { token });
  const restart = async () => {
    await peer.close();
    await server.close(0);
    return started(t, control, more, { ...given, folder, model });
  };
  return { model, peer, folder, tcp, token, restart };
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
