/**
 * The servers whose approvals a command shows and answers: the one that runs (`handfast up`), and those on the pipes of
 * editors and other programs.
 *
 * With an address on the command line it is that server alone.
 */
import { handfastHome } from '../../base/handfast-home.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { findPrivateSockets } from '../../server/control/private-socket.ts';
import { asError } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { type FoundHost, findHost } from './find-host.ts';
import { type ControlFlags, openControl } from './open-control.ts';

/** A server, and its name in tables. */
export interface ApprovalServer {
  readonly control: ControlClient;
  readonly label: string;
}

/** A server that may be connected to. */
interface Candidate {
  readonly host: FoundHost;
  readonly label: string;
}

/**
 * Connects to every server, runs `work`, closes the connections. A server that cannot be reached is reported on stderr while
 * another one is reached; the last failure is thrown when none is.
 */
export async function withApprovalServers<T>(
  flags: ControlFlags,
  terminal: Terminal,
  work: (servers: readonly ApprovalServer[]) => Promise<T>,
): Promise<T> {
  return interruptible(async (signal) => {
    const servers: ApprovalServer[] = [];
    const failures: unknown[] = [];
    try {
      for (const { host, label } of await candidates(flags, failures)) {
        try {
          servers.push({ control: await openControl(host, { signal }), label });
        } catch (error) {
          failures.push(error);
        }
      }
      if (servers.length === 0) throw failures.at(-1);
      for (const failure of failures) {
        const { code, message } = asError(failure);
        // That no host runs is no news where an editor runs its own.
        if (code !== 'unreachable' || flags.connect !== undefined) terminal.note(message);
      }
      return await work(servers);
    } finally {
      await Promise.all(servers.map(({ control }) => control.close()));
    }
  });
}

async function candidates(flags: ControlFlags, failures: unknown[]): Promise<Candidate[]> {
  const onPipes = flags.connect === undefined ? await findPrivateSockets(handfastHome(process.env)) : [];
  const found: Candidate[] = onPipes.map(({ address, pid }) => {
    const host = { address, via: address, token: '', own: undefined, running: undefined, others: 0 };
    return { host, label: `process ${pid}` };
  });
  try {
    found.push({ host: await findHost({ ...flags, sessions: true }), label: 'handfast up' });
  } catch (error) {
    failures.push(error);
  }
  return found;
}
