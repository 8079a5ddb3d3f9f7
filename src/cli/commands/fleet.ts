/**
 * `handfast fleet workers|top|drain` and `handfast route explain`: looks at a running fleet. Starting one is `fleet-up.ts`.
 */
import type { ControlFlags } from '../open-control.ts';
import { taskMeant, withFleet } from '../open-fleet.ts';
import { TASK_HEADINGS, taskRow, WORKER_HEADINGS, workerRow } from '../task-output.ts';
import type { Terminal } from '../terminal.ts';
import { pause, type SubmitFlags, specOf } from './task.ts';

export async function fleetWorkers(flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const workers = await fleet.workers();
    if (terminal.json) return terminal.document(workers);
    if (workers.length === 0) return terminal.note('no workers; let one join with: handfast worker');
    const now = Date.now();
    terminal.table(
      WORKER_HEADINGS,
      workers.map((worker) => workerRow(worker, now)),
    );
    for (const { peer_id, warning } of workers) if (warning !== null) terminal.note(`${peer_id}: ${warning}`);
  });
}

/** A live view of the fleet, until Ctrl-C; where nobody watches, one look. */
export async function fleetTop(flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet, signal }) => {
    for (;;) {
      const [status, workers, tasks] = await Promise.all([
        fleet.status(),
        fleet.workers(),
        fleet.list({ states: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'], limit: 50 }),
      ]);
      if (terminal.json) terminal.document({ status, workers, tasks });
      else {
        const now = Date.now();
        const counts = Object.entries(status.counts).map(([name, count]) => `${name} ${count}`);
        terminal.screen([
          `fleet ${status.name} on ${status.buses.join(', ')}: ${counts.join(', ')}`,
          '',
          ...terminal.columns(
            WORKER_HEADINGS,
            workers.map((worker) => workerRow(worker, now)),
          ),
          '',
          ...terminal.columns(
            TASK_HEADINGS,
            tasks.map((task) => taskRow(task, now)),
          ),
        ]);
      }
      if (!terminal.live) return;
      await pause(signal);
    }
  });
}

export async function fleetDrain(
  peerId: string,
  { undo = false, ...flags }: ControlFlags & { readonly undo?: boolean },
  terminal: Terminal,
): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    await fleet.drain(peerId, !undo);
    if (terminal.json) terminal.document({ peer_id: peerId, draining: !undo });
    else terminal.line(undo ? `${peerId} takes tasks again` : `${peerId} gets no more tasks; what it has it finishes`);
  });
}

/** Where a task would go now: one that was submitted, or with `--brief` one that is only described. */
export async function routeExplain(
  words: readonly string[],
  { brief = false, ...flags }: SubmitFlags & { readonly brief?: boolean },
  terminal: Terminal,
): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const asked = brief ? await specOf(words, flags) : (await taskMeant(fleet, words.join(' '))).task_id;
    const { explanation, table } = await fleet.explain(asked);
    if (terminal.json) return terminal.document(explanation);
    terminal.line(explanation.sentence);
    terminal.line();
    for (const line of table.split('\n')) terminal.line(line);
  });
}
