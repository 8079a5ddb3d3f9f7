/** What a server of sessions sees again and again: sessions with their turns, approvals. Out of a configuration, over HTTP. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.ts';
import { type ControlClient, connect } from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import { type Edge, type EdgeKind, inParallel } from './edge.ts';

const TOKEN = 'token-of-the-growth-bench';
const WIDTH = 8;
/** Turns of a session that asks for approvals, before the next session. */
const TURNS = 50;

async function opened(folder: string, run: (control: ControlClient, cwd: string, count: number) => Promise<void>) {
  const cwd = join(folder, 'work');
  mkdirSync(cwd, { recursive: true });
  const file = join(folder, 'handfast.yaml');
  const token = `{ name: root, token: ${TOKEN}, admin: true }`;
  writeFileSync(
    file,
    `listen: http://127.0.0.1:0\nauth:\n  tokens:\n    - ${token}\ncontrol:\n  backend: rehearsal\n  max_sessions: 1000000\n`,
  );
  const env = { HANDFAST_HOME: join(folder, 'home'), HANDFAST_KEYRING: 'off' };
  const server = await serve(await loadConfig(file, { env, cwd: folder }), { announce: false });
  const control = await connect(server.url as string, { token: TOKEN });
  const edge: Edge = {
    run: (count) => run(control, cwd, count),
    async close() {
      await control.close();
      await server.close(0);
    },
  };
  return edge;
}

export const turns: EdgeKind = {
  unit: 'a session of the control edge: created, a turn, closed',
  units: 20_000,
  quickUnits: 1_000,
  open: (folder) =>
    opened(folder, (control, cwd, count) =>
      inParallel(count, WIDTH, async () => {
        const session = await control.create({ cwd });
        const turn = await session.prompt('say "done"');
        await turn.result();
        await session.close();
      }),
    ),
};

/** A turn that asks for one approval, which is answered at once. */
async function approvedTurn(control: ControlClient, session: Awaited<ReturnType<ControlClient['create']>>) {
  const turn = await session.prompt('write "x" to file.txt');
  for await (const event of turn) {
    if (event.type !== 'approval.requested') continue;
    await control.rpc.approvalAnswer({ approval_id: event.payload.approval.id, decision: 'allow' });
  }
}

export const approvals: EdgeKind = {
  unit: 'an approval: asked, answered, the tool run',
  units: 20_000,
  quickUnits: 1_000,
  open: (folder) =>
    opened(folder, (control, cwd, count) =>
      inParallel(Math.ceil(count / TURNS), WIDTH, async () => {
        const session = await control.create({ cwd });
        for (let n = 0; n < TURNS; n += 1) await approvedTurn(control, session);
        await session.close();
      }),
    ),
};
