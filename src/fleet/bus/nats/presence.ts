/**
 * A worker's presence: its description in the profiles bucket, rewritten every heartbeat so that it does not expire, its
 * card in the discovery bucket, and its announces on the events stream.
 *
 * Two processes of one name cannot both be present: the one that joined last has the name, the other gets `superseded`.
 */
import { FLEET_VERSION, type SessionAnnounce, type SessionBye } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import type { WorkerPort } from '../reply-channel.ts';
import type { Bucket } from './bucket.ts';
import type { NatsLink } from './connection.ts';
import { pack, unpack } from './payload.ts';
import { cardKey, subjects, tokenOf } from './subjects.ts';

export interface PresenceOptions {
  readonly link: NatsLink;
  readonly worker: WorkerPort;
  readonly profiles: Bucket;
  readonly discovery: Bucket;
  /** Lifetime of a profile, seconds; it is rewritten three times in it. */
  readonly ttlS: number;
  /** Another process has the name now. */
  readonly taken: (error: HandfastError) => void;
  /** Epoch milliseconds. Default `Date.now`. */
  readonly now?: () => number;
}

export class Presence {
  readonly #options: PresenceOptions;
  readonly #key: string;
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;
  #announce: SessionAnnounce | undefined;
  /** Revision of the value this process wrote last. */
  #revision = 0;
  #writing: Promise<void> | undefined;
  /** The profile changed while a write was running. */
  #again = false;
  #ended = false;

  constructor(options: PresenceOptions) {
    this.#options = options;
    this.#key = tokenOf(options.worker.agentId);
    this.#timer = setInterval(() => void this.#write(), (options.ttlS * 1000) / 3);
    this.#stopListening = options.link.onChange((up) => up && void this.#write());
  }

  /** Acquires the name and writes the first profile. */
  async start(announce: SessionAnnounce): Promise<void> {
    const { link, profiles, discovery, worker } = this.#options;
    this.#announce ??= announce;
    const first = this.#announce;
    this.#revision = await profiles.put(this.#key, pack(this.#now(first)));
    link.notify(subjects.announce(this.#key), pack(first));
    // It was asked again meanwhile.
    if (this.#announce !== first) void this.#write();
    await discovery.put(cardKey(this.#key), pack(cardOf(worker)));
  }

  /** Publishes a new description of the worker. */
  announce(announce: SessionAnnounce): void {
    if (this.#ended) return;
    this.#announce = announce;
    this.#options.link.notify(subjects.announce(this.#key), pack(announce));
    void this.#write();
  }

  /** Shows that the worker has left, in its profile, until that expires. Never rejects. */
  async bye(bye: SessionBye): Promise<void> {
    if (this.#ended) return;
    this.end();
    await this.#writing;
    const { link, profiles } = this.#options;
    link.notify(subjects.announce(this.#key), pack(bye));
    try {
      if (this.#revision > 0) await profiles.update(this.#key, pack(bye), this.#revision, 2_000);
    } catch (error) {
      link.log?.info('goodbye was not stored; the profile expires', { error: (error as Error).message });
    }
  }

  /** Stops writing. */
  end(): void {
    this.#ended = true;
    clearInterval(this.#timer);
    this.#stopListening();
  }

  /**
   * Returns the description with the current values of the members that change all the time. Each write counts as sent again:
   * with the time of the first one, an orchestrator that starts later would take its age for a difference of the clocks.
   */
  #now(announce: SessionAnnounce): SessionAnnounce {
    const { worker, ttlS, now = Date.now } = this.#options;
    const { session = {}, envelope } = announce;
    return {
      ...announce,
      ...(envelope !== undefined && { envelope: { ...envelope, sent_at: new Date(now()).toISOString() } }),
      session: {
        ...session,
        active_tasks: worker.activeTasks,
        draining: worker.draining,
        ttl_s: Math.min(session.ttl_s ?? ttlS, ttlS),
      },
    };
  }

  /** Writes the known description; one write at a time, and the latest is never left out. Never rejects. */
  #write(): Promise<void> {
    if (this.#ended || this.#announce === undefined || this.#revision === 0 || !this.#options.link.up) {
      return Promise.resolve();
    }
    if (this.#writing !== undefined) {
      this.#again = true;
      return this.#writing;
    }
    this.#writing = this.#written(this.#announce).finally(() => {
      this.#writing = undefined;
      if (!this.#again) return;
      this.#again = false;
      void this.#write();
    });
    return this.#writing;
  }

  async #written(announce: SessionAnnounce): Promise<void> {
    const { profiles, link, ttlS } = this.#options;
    const value = pack(this.#now(announce));
    const withinMs = (ttlS * 1000) / 3;
    try {
      const revision = await profiles.update(this.#key, value, this.#revision, withinMs);
      if (revision !== undefined) {
        this.#revision = revision;
        return;
      }
      const entry = await profiles.get(this.#key);
      if (entry === undefined) {
        // It expired while the server was unreachable.
        this.#revision = (await profiles.create(this.#key, value, withinMs)) ?? this.#revision;
      } else if (this.#isMine(entry.value)) {
        this.#revision = entry.revision;
        this.#again = true;
      } else {
        const { agentId } = this.#options.worker;
        this.end();
        this.#options.taken(fail('superseded', `another worker named ${agentId} has joined`, { agent_id: agentId }));
      }
    } catch (error) {
      link.log?.warn('the profile could not be written', { error: (error as Error).message });
    }
  }

  #isMine(value: Uint8Array): boolean {
    try {
      const found = JSON.parse(Buffer.from(unpack(value)).toString()) as Partial<SessionAnnounce>;
      return found.session?.incarnation === this.#options.worker.incarnation;
    } catch {
      return false;
    }
  }
}

/** Returns the announce of a worker, which others may read without a request. Stays when the worker has left. */
function cardOf({ agentId, features, pools }: WorkerPort): object {
  const token = tokenOf(agentId);
  return {
    agent_id: agentId,
    protocol_versions: [FLEET_VERSION],
    features,
    pools,
    subjects: {
      dispatch: subjects.dispatch(token),
      control: subjects.control(token, '*'),
      events: subjects.events(token, '*'),
    },
  };
}
