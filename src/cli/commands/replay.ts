/** `handfast replay`: serves the host of a recording to live clients, or plays its client against a live host. */
import { counted } from '../../base/counted.ts';
import { webSocketAddress } from '../../base/web-address.ts';
import { checkBind } from '../../config/listen-address.ts';
import type { Recording } from '../../recording/format.ts';
import { whatIsMissing } from '../../recording/missing.ts';
import { readBundle } from '../../recording/read-bundle.ts';
import { replayClient } from '../../recording/replay-client.ts';
import { ReplayHost, type ReplayOptions } from '../../recording/replay-host.ts';
import { listenLinks } from '../../server/listen-links.ts';
import { MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { fail } from '../../wire/errors.ts';
import { findHost, routeOf } from '../connect/find-host.ts';
import { interruptible } from '../interrupt.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { readText } from '../read-text.ts';
import { jsonObject } from '../tool-arguments.ts';
import { untilSignal } from '../until-signal.ts';
import { printDivergences } from './diff.ts';

/** Time for reaching the host. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface ReplayFlags extends Pick<ReplayOptions, 'speed' | 'order' | 'volatile'> {
  readonly as: 'host' | 'client';
  readonly listen?: string;
  readonly once?: boolean;
  readonly connect?: string;
  readonly tokenFile?: string;
  readonly secrets?: string;
  /** Seconds. */
  readonly timeout?: number;
  readonly all?: boolean;
}

/**
 * Resolves with exit code 1 when a client sent a message that was not recorded, or a live host replied otherwise. Fails with
 * `usage`, `recording.invalid`, `not_found`, and as connecting does.
 */
export async function replay(path: string, flags: ReplayFlags, terminal: Terminal): Promise<number> {
  const { as, listen, connect } = flags;
  if (as === 'host' && (listen === undefined || connect !== undefined))
    throw fail('usage', 'as host, pass --listen ADDRESS');
  if (as === 'client' && (connect === undefined || listen !== undefined))
    throw fail('usage', 'as client, pass --connect ADDRESS');
  const recording = readBundle(path);
  const missing = whatIsMissing(recording);
  if (missing !== undefined) terminal.note(missing);
  return as === 'host' ? asHost(recording, listen as string, flags, terminal) : asClient(recording, flags, terminal);
}

async function asHost(
  recording: Recording,
  listen: string,
  { once, speed, order, volatile }: ReplayFlags,
  terminal: Terminal,
): Promise<number> {
  const address = checkBind(listen, { hasToken: false, insecure: false });
  const host = new ReplayHost(recording, { speed, order, volatile, log: (line) => terminal.note(line) });
  const listener = await listenLinks(address, (link) => host.accept(link), { ...host.limits, rpc: true });
  if (terminal.json) terminal.document({ ready: true, address: listener.address, pid: process.pid });
  else terminal.line(`replaying ${counted(host.plans.length, 'connection')} at ${listener.address}; Ctrl-C ends it`);
  await Promise.race([untilSignal(terminal), ...(once ? [host.ended] : [])]);
  const { report } = host;
  await host.close();
  await listener.close();
  leaveSoon();
  if (terminal.json) terminal.document(report);
  else {
    const { matched, misses, missing } = report;
    terminal.line(
      `found ${counted(matched, 'message')}; ${misses} ${misses === 1 ? 'was' : 'were'} not recorded, ${missing} recorded ones did not come`,
    );
  }
  return report.misses === 0 ? 0 : 1;
}

async function asClient(
  recording: Recording,
  { connect, tokenFile, secrets, timeout, volatile, all }: ReplayFlags,
  terminal: Terminal,
): Promise<number> {
  const found = await findHost({ connect, tokenFile });
  const { token } = found;
  const isRpc = recording.manifest.protocol === 'session-rpc';
  const options = {
    timeoutMs: CONNECT_TIMEOUT_MS,
    maxMessageBytes: MESSAGE_BYTES_CEILING,
    onStderr: (line: string) => terminal.note(line),
  };
  const route = routeOf(
    found,
    options,
    (address) => (isRpc ? webSocketAddress(address, '/rpc') : undefined) ?? address,
  );
  const given = secrets === undefined ? {} : await jsonObject(`@${secrets}`, readText);
  const { live, divergences } = await interruptible((signal) =>
    replayClient(recording, {
      dial: () => route.dial(signal),
      token,
      secrets: given as Record<string, string>,
      volatile,
      most: all ? Number.POSITIVE_INFINITY : 1,
      ...(timeout && { timeoutMs: timeout * 1000 }),
    }),
  );
  return printDivergences(divergences, recording, live, terminal);
}
