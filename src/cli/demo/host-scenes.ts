/**
 * The scenes of `handfast demo` with a host and an agent. Each resolves when the shown event has really happened, or rejects.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addressOf } from '../../agent/addresses.ts';
import { type AgentOptions, AgentSession } from '../../agent/agent.ts';
import { ChainsClient } from '../../capabilities/chains/client.ts';
import { ToolsClient } from '../../capabilities/tools/client.ts';
import * as control from '../../control-client/connect.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../../transport/link.ts';
import { asError, fail } from '../../wire/errors.ts';
import { CuttableWire } from './cuttable-wire.ts';
import type { Stage } from './stage.ts';

/** Time to connect, in milliseconds. */
const CONNECT_MS = 10_000;

export async function handshake({ host, say }: Stage): Promise<void> {
  const capabilities = ['tools', 'memory', 'chains', 'test'];
  const refused = await connect(host.address, capabilities, { token: 'a-wrong-token-0000000000000000000000' }).then(
    () => {
      throw fail('runtime_error', 'the host accepted a wrong token');
    },
    asError,
  );
  if (refused.code !== 'auth_failed') throw refused;
  say('refused', `${refused.code}: ${refused.message}`);
  await using agent = await connect(host.address, capabilities, { token: host.token });
  say('accepted', `A2E 1.0, session ${agent.sessionId.slice(0, 8)}…`);
  const answers = [...agent.capabilities];
  const granted = answers.filter(([, { enabled }]) => enabled).map(([name]) => name);
  say('granted', granted.join(', '));
  for (const [name, { enabled, metadata }] of answers) {
    if (!enabled) say('not here', `${name}: ${String(metadata.reason)}`);
  }
}

export async function toolStreamed({ host, say }: Stage): Promise<void> {
  await using agent = await connect(host.address, ['tools'], { token: host.token });
  const call = new ToolsClient(agent).call('shell', { command: 'for i in 1 2 3; do echo "line $i"; sleep 0.3; done' });
  for await (const { kind, data } of call) if (kind === 'log') say('event', String(data.message).trim());
  const { duration_ms } = await call;
  say('reply', `${duration_ms} ms after the request`);
}

/** Connects an agent of a host. */
function connect(address: string, capabilities: readonly string[], options: AgentOptions): Promise<AgentSession> {
  const { dial } = addressOf(address, { timeoutMs: CONNECT_MS, maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES });
  return AgentSession.open(dial, capabilities, options);
}

/** Cuts the link during a call that appends to a file: the length of the file shows how often the call ran. */
export async function linkCut({ host, workspace, say }: Stage): Promise<void> {
  await using wire = await CuttableWire.to(new URL(host.tcp));
  await using agent = await connect(wire.address, ['tools'], {
    token: host.token,
    onState: ({ state }) => {
      if (state === 'lost') say('lost', 'the link is gone; the call continues at the host');
      if (state === 'resumed') say('resumed', 'the agent is back and is sent what it missed');
    },
  });
  const command = 'for i in 1 2 3 4 5 6; do echo "part $i"; echo "part $i" >> parts.txt; sleep 0.25; done';
  let parts = 0;
  for await (const { kind, data } of new ToolsClient(agent).call('shell', { command })) {
    if (kind !== 'log') continue;
    for (const line of String(data.message).trim().split('\n')) {
      parts += 1;
      say('event', line);
      if (parts === 2) wire.cut();
    }
  }
  const written = (await readFile(join(workspace, 'parts.txt'), 'utf8')).trim().split('\n').length;
  if (parts !== 6 || written !== 6) throw fail('runtime_error', `${parts} events and ${written} lines, not 6 of each`);
  say('counted', '6 events, none twice; the tool ran once');
}

export async function approval({ host, workspace, say }: Stage): Promise<void> {
  const client = await control.connect(host.address, { clientName: 'handfast-demo', token: host.token });
  try {
    const session = await client.create({ title: 'demo', backend: 'rehearsal' });
    const turn = await session.prompt('write "agreed" to note.txt');
    for await (const event of turn) {
      if (event.type !== 'approval.requested') continue;
      const { id, title, risks } = event.payload.approval;
      say('asked', `${title} (${risks.join(', ')})`);
      await client.rpc.approvalAnswer({ approval_id: id, decision: 'allow' });
      say('allowed', 'once');
    }
    const { stopReason } = await turn.result();
    say('written', `${JSON.stringify(await readFile(join(workspace, 'note.txt'), 'utf8'))} to note.txt; ${stopReason}`);
  } finally {
    await client.close();
  }
}

export async function chainKilled({ host, workspace, say }: Stage): Promise<void> {
  const node = (node_id: string, after: readonly string[]) => ({
    node_id,
    kind: 'tool' as const,
    name: 'shell',
    input: { command: `echo ${node_id} >> effects.txt` },
    after: [...after],
  });
  const nodes = [
    node('fetch', []),
    node('build', ['fetch']),
    { node_id: 'pause', kind: 'wait' as const, wait: { ms: 1500 }, after: ['build'] },
    node('publish', ['pause']),
  ];
  const effects = async () => (await readFile(join(workspace, 'effects.txt'), 'utf8')).trim().split('\n');
  const capabilities = ['tools', 'chains'];
  const before = await connect(host.address, capabilities, { token: host.token, resume: false });
  const waiting = Promise.withResolvers<void>();
  const run = new ChainsClient(before).run({ nodes }, {}, { chainId: 'demo' });
  const lost = (async () => {
    for await (const { fields, data } of run) {
      const { node_id = '', phase = '' } = { ...data, ...fields } as { node_id?: string; phase?: string };
      if (phase === 'done') say('done', node_id);
      if (phase === 'wait') waiting.resolve();
    }
    await run;
  })().catch(asError);
  await waiting.promise;
  say('killed', `SIGKILL to the host, process ${host.pid}; effects so far: ${(await effects()).join(', ')}`);
  await host.killed();
  await lost;
  await before.close();
  await host.start();
  say('up again', `process ${host.pid}`);
  await using agent = await connect(host.address, capabilities, { token: host.token });
  const { success } = await new ChainsClient(agent).resume('demo');
  const all = await effects();
  if (!success || all.join() !== 'fetch,build,publish')
    throw fail('runtime_error', `the effects are ${all.join(', ')}`);
  say('resumed', `effects: ${all.join(', ')}; what had finished was not run again`);
}
