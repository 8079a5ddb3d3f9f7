/**
 * `handfast acp`: the sessions of this user for the editor that started this process, by the Agent Client Protocol on its
 * pipes. Nothing but the protocol goes to stdout.
 *
 * Uses the server that runs, so that sessions outlive the editor; else one of its own for as long as the editor stays.
 */
import { serveAcp } from '../../bridge/acp-agent.ts';
import { type ConnectControlOptions, connectControl } from '../../control-client/connect.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { createLog } from '../../host/log.ts';
import { HIGHEST_MAX_MESSAGE_BYTES } from '../../transport/link.ts';
import { stdioLink } from '../../transport/stdio.ts';
import { asError } from '../../wire/errors.ts';
import { type ConnectFlags, findHost } from '../find-host.ts';
import { leaveSoon } from '../leave.ts';
import { packageVersion } from '../package-info.ts';
import { logStrayRejections } from '../stray-rejections.ts';

export interface AcpFlags extends Pick<ConnectFlags, 'connect' | 'tokenFile'> {
  /** Of a server of our own. */
  readonly config?: string;
  /** Backend and model of new sessions. */
  readonly backend?: string;
  readonly model?: string;
  readonly verbose?: boolean;
}

/** The server behind the editor's sessions. */
interface Behind {
  readonly control: ControlClient;
  close(): Promise<void>;
}

/**
 * Serves until the editor closes the pipes, or a signal. Fails as reaching or starting the server does, with
 * `not_configured` when the SDK of the protocol is not installed.
 */
export async function acp(flags: AcpFlags): Promise<void> {
  // Before anything that may print is loaded: from here on it finds itself on stderr.
  const link = stdioLink({ maxMessageBytes: HIGHEST_MAX_MESSAGE_BYTES });
  logStrayRejections(createLog({ level: flags.verbose ? 'info' : 'error', format: 'text' }));
  const stop = (): void => {
    process.removeListener('SIGTERM', stop).removeListener('SIGINT', stop);
    void link.close('the process was told to end');
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  let behind: Behind | undefined;
  try {
    behind = await serverFor(flags);
    const { backend, model } = flags;
    await serveAcp({ control: behind.control, link, version: packageVersion(), create: { backend, model } });
  } catch (error) {
    link.destroy();
    throw error;
  } finally {
    await behind?.close();
    leaveSoon();
  }
}

async function serverFor(flags: AcpFlags): Promise<Behind> {
  const options: ConnectControlOptions = { clientName: 'handfast-acp', clientVersion: packageVersion() };
  const found = await findHost(flags).catch((thrown: unknown) => {
    if (flags.connect === undefined && asError(thrown).code === 'unreachable') return undefined;
    throw thrown;
  });
  if (found !== undefined) {
    const control = await connectControl(found.address, { ...options, token: found.token });
    return { control, close: () => control.close() };
  }
  const { embeddedServer } = await import('../embedded-server.ts');
  const server = await embeddedServer({ config: flags.config, backend: flags.backend });
  const control = await connectControl(server, options);
  return {
    control,
    async close() {
      await control.close();
      await server.stop();
    },
  };
}
