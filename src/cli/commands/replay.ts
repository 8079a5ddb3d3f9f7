/** `handfast replay`: serves the host of a recording to live clients until a signal. */
import { checkBind } from '../../config/listen-address.ts';
import { readBundle } from '../../recording/read-bundle.ts';
import { ReplayHost, type ReplayOptions } from '../../recording/replay-host.ts';
import { listenLinks } from '../../server/listen-links.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { untilSignal } from '../until-signal.ts';

export interface ReplayFlags extends Pick<ReplayOptions, 'speed' | 'order' | 'volatile'> {
  readonly listen: string;
  readonly once?: boolean;
}

/** Resolves with exit code 1 when a client sent what was not recorded. Fails with `recording.invalid`, `not_found`. */
export async function replay(
  path: string,
  { listen, once, ...options }: ReplayFlags,
  terminal: Terminal,
): Promise<number> {
  const address = checkBind(listen, { hasToken: false, insecure: false });
  const recording = readBundle(path);
  if (!recording.manifest.complete)
    terminal.note('the recording is not complete: what its recorder did not write is missing');
  const host = new ReplayHost(recording, { ...options, log: (line) => terminal.note(line) });
  const listener = await listenLinks(address, (link) => host.accept(link), { ...host.limits, rpc: true });
  if (terminal.json) terminal.document({ ready: true, address: listener.address, pid: process.pid });
  else terminal.line(`replaying ${host.plans.length} connections at ${listener.address}; Ctrl-C ends it`);
  await Promise.race([untilSignal(terminal), ...(once ? [host.ended] : [])]);
  const { report } = host;
  await host.close();
  await listener.close();
  leaveSoon();
  if (terminal.json) terminal.document(report);
  else
    terminal.line(
      `found ${report.matched} messages; ${report.misses} were not recorded, ${report.missing} recorded ones did not come`,
    );
  return report.misses === 0 ? 0 : 1;
}
