/**
 * `handfast complete`: answers a shell's request at each Tab. The things that arguments name are read from the running servers
 * of this user, within a bound, and only where a command names them.
 */
import { within } from '../../base/race.ts';
import type { Candidate, Known } from '../completion.ts';
import { TOOL_CAPABILITIES, withAgent } from '../connect/open-agent.ts';
import { withControl } from '../connect/open-control.ts';
import { withFleet } from '../connect/open-fleet.ts';
import type { Terminal } from '../output/terminal.ts';
import { shownIds } from '../short-id.ts';
import { publishedNames } from './schema-export.ts';

/** A user who pressed Tab waits no longer than this for a server. */
const PATIENCE_MS = 1500;
/** Fewer than a screen: more do not help to choose. */
const MOST = 20;

/** The things of the running servers. */
export const knownThings =
  (terminal: Terminal, patienceMs = PATIENCE_MS): Known =>
  async (command, argument) =>
    (await within(thingsOf(command, argument, terminal), patienceMs)) ?? [];

async function thingsOf(command: string, argument: string, terminal: Terminal): Promise<readonly Candidate[]> {
  if (argument === 'session' && command.startsWith('session')) return sessions(terminal);
  if (argument === 'approval') return approvals(terminal);
  if (argument === 'task') return tasks(terminal);
  if (command === 'fleet drain') return workers(terminal);
  if (command === 'tools call') return tools(terminal);
  if (command === 'schema export') return (await publishedNames()).map((value) => ({ value, about: '' }));
  return [];
}

/** Ids as short as tables on a terminal show them. */
function shortened<Thing>(things: readonly Thing[], idOf: (thing: Thing) => string, aboutOf: (thing: Thing) => string) {
  const ids = shownIds(things.map(idOf), { width: 80 });
  return things.map((thing, index) => ({ value: ids[index] as string, about: aboutOf(thing) }));
}

const sessions = (terminal: Terminal) =>
  withControl({}, terminal, async ({ control }) => {
    const newest = (await Array.fromAsync(control.sessions({}))).slice(0, MOST);
    return shortened(
      newest,
      ({ session_id }) => session_id,
      ({ title }) => title,
    );
  });

const approvals = (terminal: Terminal) =>
  withControl({}, terminal, async ({ control }) => {
    const { approvals: pending } = await control.rpc.approvalList({});
    return shortened(
      pending,
      ({ id }) => id,
      ({ title }) => title,
    );
  });

const tasks = (terminal: Terminal) =>
  withFleet({}, terminal, async ({ fleet }) => {
    const newest = await fleet.list({ limit: MOST });
    return shortened(
      newest,
      ({ task_id }) => task_id,
      ({ state, spec }) => `${state}: ${spec.brief}`,
    );
  });

const workers = (terminal: Terminal) =>
  withFleet({}, terminal, async ({ fleet }) =>
    (await fleet.workers()).map(({ peer_id, status }) => ({ value: peer_id, about: status })),
  );

const tools = (terminal: Terminal) =>
  withAgent({}, TOOL_CAPABILITIES, terminal, async (opened) =>
    (await opened.tools.list({}, { signal: opened.signal })).map(({ name, description }) => ({
      value: name,
      about: description,
    })),
  );
