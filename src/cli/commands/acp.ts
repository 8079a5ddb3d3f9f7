/**
 * `handfast acp`: the sessions of this user for the editor that started this process, by the Agent Client Protocol on its
 * pipes. Nothing but the protocol goes to stdout.
 *
 * Uses the server that runs, so that sessions outlive the editor; else it starts one for as long as the editor stays.
 */

import { escapeControls } from '../../base/escape-controls.ts';
import { type RefusedControl, serveAcp } from '../../bridge/acp-agent.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { isLocal } from '../connect/find-host.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { type ReachedServer, reachServer } from '../connect/reach-server.ts';
import { leaveSoon } from '../leave.ts';
import { modelLine, mustServe, statusOf } from '../model/model-text.ts';
import { ownPipes } from '../own-pipes.ts';
import { packageVersion } from '../package-info.ts';

export interface AcpFlags extends ControlFlags {
  /** Configuration of a server that this command starts. */
  readonly config?: string;
  /** Backend, model and thinking level of new sessions. */
  readonly backend?: string;
  readonly model?: string;
  readonly thinking?: string;
  readonly verbose?: boolean;
}

/**
 * Serves until the editor closes the pipes, or a signal; where the server refuses the token, requests of the editor fail until
 * it authenticates. Fails as reaching or starting the server does, with `not_configured` when the SDK of the protocol is not
 * installed, and with `connection_lost` when the server is lost for good: an editor starts its agents again, and would not know
 * of one that can do nothing.
 */
export async function acp(flags: AcpFlags): Promise<void> {
  const { link, log } = ownPipes(MESSAGE_BYTES_CEILING, flags.verbose);
  let behind: ReachedServer | undefined;
  let lost: HandfastError | undefined;
  const reach = async (): Promise<ControlClient> => {
    await behind?.close();
    behind = undefined;
    behind = await reachServer(flags, {
      clientName: 'handfast-acp',
      onStderr: (line) => log.warn(line),
      onState(change) {
        if (change.state === 'open' || change.state === 'resumed') log.info('connected to the server');
        if (change.state === 'lost' && change.attempt === 1) {
          log.warn('lost the connection to the server; reconnecting', { error: change.reason.message });
        }
        if (change.state !== 'closed' || change.error === undefined) return;
        lost = change.error;
        // The requests that run fail first, and their replies are sent.
        setImmediate(() => void link.close('the connection to the server is lost'));
      },
    });
    await mustServe(behind.control, flags);
    await sayModel(behind.control, flags);
    return behind.control;
  };
  try {
    const { backend, model, thinking } = flags;
    const control = await reach().catch((thrown: unknown): RefusedControl => {
      const refused = asError(thrown);
      // An editor would only read that its agent has ended.
      if (refused.code !== 'auth_failed') throw thrown;
      log.warn(refused.message);
      return { refused, connect: reach };
    });
    await serveAcp({
      control,
      link,
      version: packageVersion(),
      lends: flags.connect === undefined || isLocal(flags.connect),
      create: { backend, model, thinking_level: thinking },
      note: (line) => log.warn(line),
    });
    if (lost !== undefined) throw lost;
  } finally {
    link.destroy();
    await behind?.close();
    leaveSoon();
  }
}

/** Writes the model of new sessions to stderr, which editors show or store; flags of this command win over it. */
async function sayModel(control: ControlClient, { backend, model }: AcpFlags): Promise<void> {
  if (backend !== undefined || model !== undefined) return;
  const status = await statusOf(control);
  const line = status && modelLine(status, process.env);
  if (line !== undefined) process.stderr.write(`handfast: ${escapeControls(line)}\n`);
}
