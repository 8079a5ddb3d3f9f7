/** `handfast record`: stands between clients and a host, and stores what passes; without `--listen` on its own pipes. */

import { readFileSync } from 'node:fs';
import { addressOf } from '../../agent/addresses.ts';
import { counted } from '../../base/counted.ts';
import { handfastHome } from '../../base/handfast-home.ts';
import { readRegularSync } from '../../base/regular-file.ts';
import { webSocketAddress } from '../../base/web-address.ts';
import { fileProblem } from '../../base/workspace/file-error.ts';
import { checkBind } from '../../config/listen-address.ts';
import { tokensOf } from '../../config/local-token.ts';
import type { Recorder } from '../../recording/recorder.ts';
import type { KnownSecret } from '../../recording/redactor.ts';
import { isSecretVariable } from '../../recording/secret-names.ts';
import type { LinkPath } from '../../server/listen-links.ts';
import { type Link, MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { asError, fail } from '../../wire/errors.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { untilSignal } from '../until-signal.ts';

/** Time for reaching the host. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface RedactionFlags {
  readonly secretEnv?: readonly string[];
  readonly secrets?: string;
  readonly secretField?: readonly string[];
}

export interface RecordFlags extends RedactionFlags {
  readonly out: string;
  readonly connect?: string;
  readonly listen?: string;
  readonly volatile?: readonly string[];
}

/** Opens a link to the host, by where the client came in. */
type DialHost = (path: LinkPath) => Promise<Link>;

/**
 * Records until the client has gone (on pipes), or a signal. Fails with `usage` for a folder with something in it,
 * `unreachable`, and `disk_full` when the bundle cannot be written; then the connections are dropped.
 */
export async function record(command: readonly string[], flags: RecordFlags, terminal: Terminal): Promise<void> {
  const dial = dialOf(command, flags, terminal);
  const address =
    flags.listen === undefined ? undefined : checkBind(flags.listen, { hasToken: false, insecure: false });
  // Without the host of the only client, nothing can be recorded: no folder is made, and the command fails.
  const host = address === undefined ? await dial('/rpc') : undefined;
  const { Recorder } = await import('../../recording/recorder.ts');
  const recorder = await Recorder.start({
    folder: flags.out,
    software: { handfast: packageVersion() },
    volatile: flags.volatile ?? [],
    ...redactionOf(flags),
  }).catch((error: unknown) => {
    host?.destroy('the recording cannot be started');
    throw error;
  });
  for (const { rule, reason } of recorder.skippedSecrets) terminal.note(`${rule} is ${reason}`);
  if (address === undefined || host !== undefined) return onPipes(recorder, host as Link, terminal);
  const { listenLinks } = await import('../../server/listen-links.ts');
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  const listener = await listenLinks(
    address,
    (client, path) => void pass(recorder, client, () => dial(path), terminal).catch(failed.reject),
    { maxMessageBytes: MESSAGE_BYTES_CEILING, maxSessions: 1000, sendBufferBytes: MESSAGE_BYTES_CEILING, rpc: true },
  );
  if (terminal.json) terminal.document({ ready: true, address: listener.address, folder: flags.out, pid: process.pid });
  else terminal.line(`recording ${listener.address} into ${flags.out}; Ctrl-C ends it`);
  try {
    await Promise.race([untilSignal(terminal), failed.promise]);
  } finally {
    await listener.close();
    await finish(recorder, terminal);
    leaveSoon();
  }
}

/** Records on pipes: the only client is the program that started this one. Nothing but the protocol goes to stdout. */
async function onPipes(recorder: Recorder, host: Link, terminal: Terminal): Promise<void> {
  const { stdioLink } = await import('../../transport/stdio.ts');
  const client = stdioLink({ maxMessageBytes: MESSAGE_BYTES_CEILING });
  const stop = (): void => void recorder.finish().catch(() => {});
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, stop);
  try {
    await recorder.connect(client, host);
  } finally {
    await finish(recorder, terminal);
    leaveSoon();
  }
}

/** Connects one client. Rejects when the bundle cannot be written; a host that is not there ends the client's link alone. */
async function pass(recorder: Recorder, client: Link, dial: () => Promise<Link>, terminal: Terminal): Promise<void> {
  let host: Link;
  try {
    host = await dial();
  } catch (thrown) {
    const { message } = asError(thrown);
    client.destroy(message);
    terminal.note(`a connection was dropped: ${message}`);
    return;
  }
  await recorder.connect(client, host);
}

async function finish(recorder: Recorder, terminal: Terminal): Promise<void> {
  await recorder.finish();
  const { connections, messages } = recorder.counts;
  const places = recorder.redacted.reduce((sum, { count }) => sum + count, 0);
  terminal.note(
    `recorded ${counted(messages, 'message')} of ${counted(connections, 'connection')}; secrets were replaced in ${counted(places, 'place')}`,
  );
}

function dialOf(command: readonly string[], { connect }: RecordFlags, terminal: Terminal): DialHost {
  const [program, ...args] = command;
  if ((program === undefined) === (connect === undefined)) {
    throw fail('usage', 'pass either --connect ADDRESS or, behind --, the command of a host');
  }
  if (program !== undefined) {
    return async () => {
      const { spawnLink } = await import('../../transport/subprocess.ts');
      const onStderr = (line: string): void => terminal.rawError(`${line}\n`);
      return spawnLink({ command: program, args, onStderr, maxMessageBytes: MESSAGE_BYTES_CEILING });
    };
  }
  const routes = new Map<string, ReturnType<typeof addressOf>>();
  const routeOf = (address: string): ReturnType<typeof addressOf> => {
    const known = routes.get(address);
    if (known !== undefined) return known;
    const route = addressOf(address, { timeoutMs: CONNECT_TIMEOUT_MS, maxMessageBytes: MESSAGE_BYTES_CEILING });
    routes.set(address, route);
    return route;
  };
  const given = connect as string;
  // Checked before anything is opened.
  routeOf(given);
  return (path) => routeOf(atPath(given, path)).dial(undefined);
}

/** Returns an HTTP address with the path that the client has used here; session RPC has a separate one. */
function atPath(address: string, path: LinkPath): string {
  return path === '/ws' || path === '/rpc' ? (webSocketAddress(address, path) ?? address) : address;
}

/** Returns the secrets that are known before the first message: of the environment, of this user, and those that were named. */
export function redactionOf({ secretEnv = [], secrets, secretField = [] }: RedactionFlags): {
  readonly secrets: readonly KnownSecret[];
  readonly fields: readonly string[];
} {
  const { env } = process;
  const missing = secretEnv.find((name) => env[name] === undefined);
  if (missing !== undefined) throw fail('usage', `there is no environment variable ${missing}`);
  const names = new Set([...secretEnv, ...Object.keys(env).filter(isSecretVariable)]);
  const known = [...names].map((name): KnownSecret => ({ rule: `env:${name}`, value: env[name] as string }));
  for (const value of linesOf(`${handfastHome(env)}/token`)) known.push({ rule: 'value:local_token', value });
  if (secrets !== undefined) {
    for (const value of linesOf(secrets, 'usage')) known.push({ rule: 'value:named', value });
  }
  return { secrets: known, fields: secretField };
}

/** Reads a secret a line; comments and blank lines do not count. */
function linesOf(file: string, missing?: 'usage'): readonly string[] {
  try {
    // A file that the user names may be a pipe, as shells make one for the output of a program.
    const text = missing === undefined ? readRegularSync(file) : readFileSync(file);
    return tokensOf(text.toString());
  } catch (cause) {
    if (missing === undefined) return [];
    throw fail(missing, `cannot read ${file}: ${fileProblem(cause)}`, {}, cause);
  }
}
