/** A client of a running fleet for one command. */
import { FleetClient } from '../../bridge/fleet-client.ts';
import type { TaskQuery, TaskRecord, TaskState } from '../../fleet/orchestrator/task.ts';
import type { CommandFleet } from '../../packages/capability.ts';
import { byPrefix, type Sought } from '../../packages/named-id.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import { findHost } from './find-host.ts';
import { type ControlFlags, openControl, withControl } from './open-control.ts';

/** Parts that a command works with. */
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
  return withControl({ ...flags, fleet: flags.fleet ?? true }, terminal, ({ control, signal }) =>
    work({
      fleet: new FleetClient(control, {
        onAway: ({ message }) => terminal.json || terminal.note(`lost the fleet (${message}); reconnecting`),
      }),
      signal,
    }),
  );
}

/** The options of a capability's command that works with a fleet too. */
export interface FleetFlags {
  readonly fleet?: string;
  readonly fleetConnect?: string;
  readonly fleetTokenFile?: string;
}

/** Opens a client of the fleet of this user, or of the one that is named, for a command that talks to a host as well. */
export async function openFleet(flags: FleetFlags, terminal: Terminal, signal: AbortSignal): Promise<CommandFleet> {
  const { fleet: named = true, fleetConnect: connect, fleetTokenFile: tokenFile } = flags;
  const found = await findHost({
    ...(connect && { connect }),
    ...(tokenFile && { tokenFile }),
    fleet: named,
    connectOption: '--fleet-connect',
  });
  const control = await openControl(found, { signal, onStderr: (line) => terminal.note(line) });
  try {
    const client = new FleetClient(control);
    const { name } = await client.status();
    return {
      name,
      submit: (spec) => client.submit(spec),
      get: (id) => client.get(id),
      cancel: (id, reason) => client.cancel(id, reason),
      follow: (id, options) => client.follow(id, options),
      [Symbol.asyncDispose]: () => control.close(),
    };
  } catch (error) {
    await control.close();
    throw error;
  }
}

/** States of tasks that have not ended; `blocked` and `lost` are also states of some that have. */
const OPEN: readonly TaskState[] = ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'];

/** Returns the newest tasks that have not ended. */
export const openTasks = (fleet: FleetClient, query: TaskQuery): Promise<readonly TaskRecord[]> =>
  fleet.select({ ...query, states: OPEN }, ({ ended_at }) => ended_at === null);

/** Newest tasks that are searched for an id prefix. */
const NEWEST = 1000;

const SOUGHT: Sought = { noun: 'task', missing: 'not_found', see: 'handfast task ls' };

/** Finds the task named by an id, the prefix of one, or `last`. Fails with `not_found`, `usage`. */
export async function resolveTask(fleet: FleetClient, id: string): Promise<TaskRecord> {
  if (id === '') throw fail('usage', 'pass a task: its id, its first characters, or "last"');
  if (id === 'last') {
    const [newest] = await fleet.list({ limit: 1 });
    if (newest === undefined) throw fail('not_found', 'there are no tasks; submit one with: handfast task submit "…"');
    return newest;
  }
  try {
    return await fleet.get(id);
  } catch (thrown) {
    const error = asError(thrown);
    if (error.code !== 'not_found') throw error;
    const tasks = await fleet.list({ limit: NEWEST });
    return byPrefix(id, tasks, ({ task_id }) => task_id, SOUGHT);
  }
}
