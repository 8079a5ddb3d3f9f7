/**
 * Recordings in tests: a host that is recorded, the recorded host for an agent or client under test, and the recorded
 * client for a host under test. The same work as `handfast record` and `handfast replay`, inside one process.
 */
import { counted } from '../base/counted.ts';
import { type Divergence, type DivergenceKind, diffRecordings } from '../recording/diff.ts';
import { readBundle } from '../recording/read-bundle.ts';
import { Recorder } from '../recording/recorder.ts';
import { replayClient } from '../recording/replay-client.ts';
import { ReplayHost, type ReplayOptions, type ReplayReport } from '../recording/replay-host.ts';
import { exportBundle } from '../recording/single-file.ts';
import type { Link } from '../transport/link.ts';
import { memoryPair } from '../transport/memory.ts';
import { fail } from '../wire/errors.ts';

export type { Divergence, DivergenceKind, ReplayOptions, ReplayReport };

/** A host or a server of sessions, which takes over a link. */
interface Accepting {
  accept(link: Link): void;
}

export interface RecordedHostOptions {
  /** Secrets that are replaced at every place, by the names they have in placeholders. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Names of further members whose text is a secret. */
  readonly secretFields?: readonly string[];
  /** JSON Pointers of fields that differ in every run; `*` and `**` are wildcards. */
  readonly volatile?: readonly string[];
}

/** A host behind a recorder. */
export interface RecordedHost extends Accepting {
  /** Ends the connections that are open, and the recording. With `file` it is also written into that one file, which must not be there. */
  finish(file?: string): Promise<void>;
}

/**
 * Puts a recorder in front of a host of this process. Every client that connects to the result is recorded into `folder`, which is
 * missing or empty; secrets are replaced before anything is written.
 *
 * @throws usage when something is in the folder
 *
 * @example
 * const recorded = await recordHost(host.host, folder);
 * const agent = await connect(recorded, { capabilities: ['tools'], token: host.token });
 */
export async function recordHost(
  host: Accepting,
  folder: string,
  options: RecordedHostOptions = {},
): Promise<RecordedHost> {
  const { secrets = {}, secretFields = [], volatile = [] } = options;
  const known = Object.entries(secrets).map(([name, value]) => ({ rule: `value:${name}`, value }));
  const recorder = await Recorder.start({ folder, secrets: known, fields: secretFields, volatile });
  return {
    accept(client) {
      const [ours, theirs] = memoryPair();
      host.accept(theirs);
      // A bundle that cannot be written fails `finish`.
      recorder.connect(client, ours).catch(() => {});
    },
    async finish(file) {
      await recorder.finish();
      if (file !== undefined) await exportBundle(folder, file);
    },
  };
}

/** A recorded host for an agent or client under test. */
export interface ReplayedHost extends AsyncDisposable {
  /** Takes a link of a client over. */
  accept(link: Link): void;
  readonly limits: { readonly maxMessageBytes: number; readonly maxSessions: number; readonly sendBufferBytes: number };
  /** False: a replay asks for no token. */
  readonly requiresToken: boolean;
  readonly report: ReplayReport;
  /** Throws when a message was not recorded, or a recorded one did not arrive. Call it after the end of the client. */
  assertPlayed(): Promise<void>;
}

/**
 * Returns the host of a recording, a folder or one file: pass it to `connect` or `listen` in place of a host. No
 * message is ever forwarded: a message that was not recorded is refused with `recording.not_recorded`, which names the
 * nearest recorded one and the first difference.
 *
 * @throws not_found, recording.invalid
 */
export function replayedHost(path: string, options: ReplayOptions = {}): ReplayedHost {
  const replay = new ReplayHost(readBundle(path), options);
  return {
    limits: replay.limits,
    requiresToken: replay.requiresToken,
    accept: (link) => replay.accept(link),
    get report() {
      return replay.report;
    },
    async assertPlayed() {
      await replay.close();
      const { misses, missed, missing } = replay.report;
      if (misses > 0)
        throw fail(
          'not_found',
          `${counted(misses, 'message was', 'messages were')} not recorded: ${missed.join('; ')}`,
        );
      if (missing > 0) throw fail('not_found', `${missing} recorded messages did not come`);
    },
    [Symbol.asyncDispose]: () => replay.close(),
  };
}

export interface PlayClientOptions {
  /** Sent in place of the recorded token. */
  readonly token?: string;
  /** Placeholder → the secret to send in its place. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly volatile?: readonly string[];
  /** Longest wait for a recorded message of the host, milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
}

/**
 * Plays the client of a recording against a host of this process and resolves with the differences, none when it
 * replies as recorded.
 *
 * @throws not_found, recording.invalid · usage when the recording sends a secret that was not given
 */
export async function playClient(
  path: string,
  host: Accepting,
  options: PlayClientOptions = {},
): Promise<readonly Divergence[]> {
  const dial = async (): Promise<Link> => {
    const [ours, theirs] = memoryPair();
    host.accept(theirs);
    return ours;
  };
  const { divergences } = await replayClient(readBundle(path), { ...options, dial, most: 100 });
  return divergences;
}

/**
 * Returns the relevant differences of two recordings: not those in ids, times, declared fields or the order of parallel
 * requests.
 *
 * @throws not_found, recording.invalid
 */
export function compareRecordings(
  left: string,
  right: string,
  options: Pick<PlayClientOptions, 'volatile'> = {},
): readonly Divergence[] {
  return diffRecordings(readBundle(left), readBundle(right), { ...options, most: 100 });
}
