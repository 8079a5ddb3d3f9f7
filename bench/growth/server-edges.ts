/**
 * Units that a server of sessions handles repeatedly: sessions with their turns, approvals. From a configuration, over
 * HTTP.
 */
import type { ControlClient } from '../../src/control.ts';
import { type Edge, type EdgeKind, inParallel } from './edge.ts';
import { served, WIDTH } from './served.ts';

/** Turns of a session that asks for approvals, before the next session. */
const TURNS = 50;

async function opened(
  folder: string,
  run: (control: ControlClient, cwd: string, count: number) => Promise<void>,
): Promise<Edge> {
  const { control, cwd, close } = await served(folder);
  return { run: (count) => run(control, cwd, count), close };
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

/** Runs a turn that asks for one approval, which is answered at once. */
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
