/**
 * `handfast fleet workers|top|drain` and `handfast route explain`: looks at a running fleet. Starting one is `fleet-up.ts`.
 */
import { counted } from '../../base/counted.ts';
import { fail } from '../../wire/errors.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { openTasks, resolveTask, withFleet } from '../connect/open-fleet.ts';
import { liveView } from '../output/live-view.ts';
import { outageLine, printWorkers, taskLines, workerLines } from '../output/task-output.ts';
import type { Terminal } from '../output/terminal.ts';
import { amount } from '../output/tool-summary.ts';
import { type SubmitFlags, specOf } from './task.ts';

export async function fleetWorkers(flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const [workers, down] = await Promise.all([fleet.workers(), fleet.down()]);
    for (const outage of down) terminal.note(outageLine(outage, Date.now()));
    if (terminal.json) return terminal.document(workers);
    if (workers.length === 0) {
      return terminal.note('no workers; let one join with: handfast worker --id NAME --executor KIND --repo FOLDER');
    }
    printWorkers(workers, terminal, Date.now());
    for (const { peer_id, warning } of workers) if (warning !== null) terminal.note(`${peer_id}: ${warning}`);
  });
}

/** Shows a live view of the fleet, until Ctrl-C; without a terminal, prints it once. */
export async function fleetTop(flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet, signal }) => {
    await liveView(terminal, signal, async () => {
      const [status, workers, down, tasks] = await Promise.all([
        fleet.status(),
        fleet.workers(),
        fleet.down(),
        openTasks(fleet, { limit: 50 }),
      ]);
      return {
        document: { status, workers, down, tasks },
        lines: () => {
          const now = Date.now();
          return [
            `fleet ${status.name} on ${status.buses.join(', ')}`,
            inShort(status.counts),
            ...down.map((outage) => outageLine(outage, now)),
            '',
            ...workerLines(workers, terminal, now),
            '',
            ...(tasks.length === 0 ? ['no open tasks'] : taskLines(tasks, terminal, now)),
          ];
        },
      };
    });
  });
}

/** `4 workers, 2 queued, 1 running, 1 parked; since the start: 9 done, 1 partial`. */
function inShort(counts: Readonly<Record<string, number>>): string {
  const count = (name: string): number => counts[name] ?? 0;
  const now = [
    amount(count('workers_here'), 'worker'),
    `${count('queued')} queued`,
    `${count('reserved') + count('sent') + count('accepted') + count('running')} under way`,
    `${count('parked')} parked`,
  ];
  const ended = Object.entries(counts).flatMap(([name, amount]) => {
    const state = /^total_ended_(.+)$/.exec(name)?.[1];
    return state === undefined ? [] : [`${amount} ${state}`];
  });
  return `${now.join(', ')}; since the start: ${ended.join(', ') || 'none ended'}`;
}

export async function fleetDrain(
  peerId: string,
  { undo = false, wait = false, ...flags }: ControlFlags & { readonly undo?: boolean; readonly wait?: boolean },
  terminal: Terminal,
): Promise<void> {
  if (undo && wait) throw fail('usage', '--wait cannot be combined with --undo');
  await withFleet(flags, terminal, async ({ fleet, signal }) => {
    await fleet.drain(peerId, !undo);
    if (wait) {
      const tasks = (await fleet.workers()).find(({ peer_id }) => peer_id === peerId)?.tasks ?? [];
      if (!terminal.json && tasks.length > 0) terminal.note(`waiting for ${amount(tasks.length, 'task')}`);
      // It is given no more: when these have ended it has nothing to do.
      for (const [ended, taskId] of tasks.entries()) {
        terminal.passing(`${ended} of ${counted(tasks.length, 'task')} ended`);
        await fleet.ended(taskId, signal);
      }
    }
    if (terminal.json) terminal.document({ peer_id: peerId, draining: !undo });
    else if (undo) terminal.line(`${peerId} accepts tasks again`);
    else terminal.line(`${peerId} gets no more tasks; ${wait ? 'it has none left' : 'what it has it finishes'}`);
  });
}

/** Shows the place where a task would go now: one that was submitted, or with `--brief` one that is only described. */
export async function routeExplain(
  words: readonly string[],
  { brief = false, ...flags }: SubmitFlags & { readonly brief?: boolean },
  terminal: Terminal,
): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const asked = brief ? await specOf(words, flags) : (await resolveTask(fleet, words.join(' '))).task_id;
    const { explanation, table } = await fleet.explain(asked);
    if (terminal.json) return terminal.document(explanation);
    terminal.page();
    for (const line of table.split('\n')) terminal.line(line);
  });
}
