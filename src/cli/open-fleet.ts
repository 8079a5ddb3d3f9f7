/**
 * A client of a running fleet for one command. Called by `fleet`, `task` and `route`.
 */
import { FleetClient } from '../bridge/fleet-client.ts';
import type { TaskRecord } from '../fleet/orchestrator/task.ts';
import { fail } from '../wire/errors.ts';
import { type ControlFlags, withControl } from './open-control.ts';
import type { Terminal } from './terminal.ts';

/** What a command works with. */
export interface FleetForCommand {
  readonly fleet: FleetClient;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Finds the fleet of this user (or the one `--connect` names), runs `work`, and leaves. */
export function withFleet<T>(
  flags: ControlFlags,
  terminal: Terminal,
  work: (opened: FleetForCommand) => Promise<T>,
): Promise<T> {
  return withControl({ ...flags, fleet: true }, terminal, ({ control, signal }) =>
    work({ fleet: new FleetClient(control), signal }),
  );
}

/** The task an id, the beginning of one, or `last` stands for. Fails with `not_found`, `usage`. */
export async function taskMeant(fleet: FleetClient, id: string): Promise<TaskRecord> {
  if (id === 'last') {
    const [newest] = await fleet.list({ limit: 1 });
    if (newest === undefined) throw fail('not_found', 'there are no tasks');
    return newest;
  }
  try {
    return await fleet.get(id);
  } catch (error) {
    const found = (await fleet.list({ limit: 1000 })).filter(({ task_id }) => task_id.startsWith(id));
    if (found.length > 1) throw fail('usage', `${found.length} tasks begin with ${JSON.stringify(id)}`);
    if (found[0] === undefined) throw error;
    return found[0];
  }
}
