/**
 * An open session: folds events, journals them and publishes them. The one place where a session changes.
 *
 * Turns, backends and approvals see it as a `SessionLog`.
 */
import type { Log } from '../../../base/log.ts';
import type { Journal, JournalEntry, NewEntry } from '../../../journal/journal.ts';
import type { SessionEventPayloads, SessionEventType } from '../../../protocol/session-events.ts';
import type { Approval, Image, UiMessage } from '../../../protocol/session-types.ts';
import type { StorageShares } from '../../../session/storage-shares.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { HistoryItem, SessionLog, SessionRecord } from '../../contract/session-log.ts';
import { type FoldEntry, fold, type InternalKind, type InternalPayloads } from '../record/fold.ts';
import {
  emptySession,
  type FoldedSession,
  headOf,
  LISTS,
  listChanges,
  NEWEST,
  sizeOf,
  wholeOf,
} from '../record/folded.ts';
import {
  type AnyImage,
  type ImageShelf,
  mayRefer,
  payloadWithImages,
  storedChars,
  storedJson,
} from '../record/stored-image.ts';
import type { SessionStore } from '../store/store.ts';
import type { SessionRow } from '../store/store-catalogue.ts';
import { sessionHolder } from '../store/store-images.ts';
import type { EventHub } from './event-hub.ts';
import { HeldEvents } from './held-events.ts';
import {
  CURSORS_PER_EVENT,
  cursorOf,
  isEventCursor,
  journaledEvent,
  paramsOf,
  payloadOf,
  RESERVED,
  seqAt,
} from './published.ts';

/** Parts that all sessions of a server share. */
export interface SessionDeps {
  readonly store: SessionStore;
  readonly journal: Journal;
  readonly hub: EventHub;
  readonly log: Log;
  /** Counts stored bytes. */
  readonly storage: Pick<StorageShares, 'add'>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Called when an unloaded session is loaded again. */
  readonly onLoad: (session: OpenSession) => void;
  /** Sessions with entries that are not on disk yet. */
  readonly unwritten: Set<OpenSession>;
  /** Called when a session could not be stored, so that requests that wait for it can only fail. */
  readonly onUnstored: (session: OpenSession, error: HandfastError) => void;
}

/** Returns journal stream of a session. */
export const streamOf = (id: string): string => `session/${id}`;

/** Returns the session of a journal stream; undefined for streams of other kinds. */
export const sessionOfStream = (stream: string): string | undefined =>
  stream.startsWith('session/') ? stream.slice('session/'.length) : undefined;

/** Types whose newest events a crash may lose; all others are on disk before they are acknowledged. */
const VOLATILE: ReadonlySet<string> = new Set(['session.stream.chunk', 'session.tool.output', 'session.debug']);

/** True for the label of a running turn: it is stored like other events, but promises nothing and need not wait for it. */
const isLabel = (type: string, { pending, detail }: Readonly<Record<string, unknown>>): boolean =>
  type === 'session.status' &&
  pending === true &&
  (detail as { stop_reason?: unknown } | undefined)?.stop_reason === undefined;

/** A snapshot is written after this many entries, or later: when as much was added as writing the head costs. */
const SNAPSHOT_ENTRIES = 512;
const HEAD_CHARACTERS_PER_ENTRY = 128;

/** A session reserves numbers for at least this many events ahead: see {@link RESERVED}. */
const RESERVE_EVENTS = 1024;

/** Entries read at a time while a session is brought up to its journal. */
const READ_ENTRIES = 1024;
const READ_BYTES = 4 * 1024 * 1024;

export class OpenSession implements SessionLog {
  readonly id: string;
  /** Its stored images. */
  readonly images: ImageShelf;
  readonly #parts: SessionDeps;
  /** Undefined while the session is unloaded: then its snapshot is complete. */
  #folded: FoldedSession | undefined;
  /** Cursor of its newest entry. */
  #cursor: number;
  /** Its newest durable append. */
  #appended: Promise<void> | undefined;
  /** Reason why an entry could not be written; from then on no entry is, until the whole session was. */
  #failure: HandfastError | undefined;
  /** Durable entries that are not on disk yet. */
  #unwritten = 0;
  #sinceSnapshot = 0;
  #snapshotDue = false;
  #headSize = 0;
  #unlisted = false;
  /** Numbers below this one are reserved. */
  #reserved = 0;
  #state: 'open' | 'sealed' | 'deleted' = 'open';
  readonly #events: HeldEvents;
  /** Calls of {@link flushed} under way. */
  #flushing = 0;

  private constructor(id: string, parts: SessionDeps, folded: FoldedSession | undefined, cursor: number) {
    this.id = id;
    this.images = parts.store.images.shelf(sessionHolder(id));
    this.#parts = parts;
    this.#folded = folded;
    this.#cursor = cursor;
    this.#events = new HeldEvents(parts.hub, seqAt(cursor));
  }

  /** Makes a session that did not exist; `session.created` is to be its first event. */
  static fresh(id: string, parts: SessionDeps): OpenSession {
    return new OpenSession(id, parts, emptySession(id), 0);
  }

  /** Makes a stored session whose snapshot is up to date. It is loaded when it is first read. */
  static stored(id: string, parts: SessionDeps, cursor: number): OpenSession {
    return new OpenSession(id, parts, undefined, cursor);
  }

  /**
   * Returns a session as its journal has it, newer than its snapshot; undefined when neither has its first event. Rejects as
   * the journal does.
   */
  static async recover(id: string, parts: SessionDeps): Promise<OpenSession | undefined> {
    const { session: folded, cursor } = parts.store.catalogue.load(id) ?? { session: emptySession(id), cursor: 0 };
    const session = new OpenSession(id, parts, folded, cursor);
    for (;;) {
      const page = await parts.journal.read(streamOf(id), session.#cursor, READ_ENTRIES, READ_BYTES);
      for (const entry of page.entries) session.#refold(entry);
      if (page.entries.length > 0) continue;
      // Events that a crash lost may have been sent: none of their numbers is used again.
      session.#cursor = Math.max(session.#cursor, page.last);
      folded.record.seq = Math.max(folded.record.seq, seqAt(session.#cursor));
      session.#events.startAfter(folded.record.seq);
      break;
    }
    return folded.record.createdAt === '' ? undefined : session;
  }

  get record(): SessionRecord {
    return this.folded.record;
  }

  /** The record with the members that only the engine reads. */
  get folded(): FoldedSession {
    if (this.#folded === undefined) {
      const stored = this.#parts.store.catalogue.load(this.id);
      if (stored === undefined) throw fail('runtime_error', 'a session has lost its snapshot');
      this.#folded = stored.session;
      this.#parts.onLoad(this);
    }
    return this.#folded;
  }

  /** True while its state is in memory. */
  get loaded(): boolean {
    return this.#folded !== undefined;
  }

  /** Approximate number of characters that it holds in memory. */
  get size(): number {
    return this.#folded === undefined ? 0 : sizeOf(this.#folded);
  }

  get deleted(): boolean {
    return this.#state === 'deleted';
  }

  emit<Type extends SessionEventType>(type: Type, payload: SessionEventPayloads[Type], turnId?: string): void {
    if (!this.#takesEntries()) return;
    const { folded } = this;
    const { record } = folded;
    const ts = this.#parts.now();
    const timestamp = new Date(ts).toISOString();
    const seq = record.seq + 1;
    if (seq >= this.#reserved) this.#reserve(seq, ts);
    const whole = payloadOf(
      { session_id: this.id, turn_id: turnId || undefined },
      payload as Readonly<Record<string, unknown>>,
    );
    const owner = type === 'session.created' ? String(whole.owner ?? '') : record.owner;
    const { event, body, size } = journaledEvent(
      { session: this.id, owner, type, seq, timestamp, payload: whole },
      this.images.holder,
    );
    fold(folded, { kind: type, payload: whole, timestamp, seq, size });
    const isVolatile = VOLATILE.has(type);
    this.#write({ cursor: cursorOf(seq), ts, kind: type, request: turnId ?? '', body }, isVolatile);
    this.#events.add(event, isVolatile || isLabel(type, whole));
  }

  /** Folds and journals an internal entry, which is not sent. */
  note<Kind extends InternalKind>(kind: Kind, payload: InternalPayloads[Kind]): void {
    if (!this.#takesEntries()) return;
    const { folded } = this;
    const { record } = folded;
    if (this.#cursor % CURSORS_PER_EVENT >= CURSORS_PER_EVENT - 2) {
      // Only a reservation fits before the next event: an event that repeats the status makes room.
      this.repeatStatus();
    }
    const ts = this.#parts.now();
    const { text: body } = storedJson(payload, this.images.holder);
    fold(folded, { kind, payload: payload as never, timestamp: iso(ts), seq: record.seq, size: body.length });
    this.#write({ cursor: this.#cursor + 1, ts, kind, request: '', body }, false);
  }

  /** Sends its status once more: a page of an export can end at this event between internal entries. */
  repeatStatus(): void {
    const { record } = this.folded;
    this.emit('session.status', { pending: isPending(record), status_label: record.statusLabel });
  }

  remember(items: readonly HistoryItem[], mode: 'append' | 'replace' = 'append'): void {
    if (items.length > 0 || mode === 'replace') this.note(`history.${mode}`, { items });
  }

  /**
   * Stores the long images of a prompt, before entries refer to them. Fails with `disk_full`, `runtime_error` or
   * `session_closed`.
   */
  async storeImages<Any extends AnyImage>(images: readonly Any[]): Promise<readonly Any[]> {
    const stored: Any[] = [];
    for (const image of images) {
      const one = await this.#parts.store.images.put(this.images.holder, image);
      // The deletion may have removed the other images before this one was stored.
      if (this.deleted) this.#parts.store.images.drop(this.images.holder);
      this.#takesEntries();
      if (one !== image) this.#parts.storage.add(this.id, this.record.owner, storedChars([one]));
      stored.push(one);
    }
    return stored;
  }

  /** Returns items of another session, or of a chat, with their images as this session's. */
  adopted<Item extends object>(items: readonly Item[]): readonly Item[] {
    const { items: adopted, chars } = this.#parts.store.images.adopted(this.images.holder, items);
    if (chars > 0) this.#parts.storage.add(this.id, this.record.owner, chars);
    return adopted;
  }

  /** Reads the payload of an internal entry of this session. Throws for a body that is not JSON. */
  payloadOf(body: string): Record<string, unknown> {
    const payload = JSON.parse(body) as Record<string, unknown>;
    return mayRefer(body) ? payloadWithImages(payload, this.images) : payload;
  }

  persistApproval(approval: Approval): Promise<void> | undefined {
    this.note('approval.asked', { approval });
    return this.#appended === undefined && this.#failure === undefined ? undefined : this.flushed();
  }

  /** Appends a new message and returns it. */
  appendMessage(
    kind: UiMessage['kind'],
    text: string,
    turnId?: string,
    more: { readonly images?: readonly Image[]; readonly unsent?: true } = {},
  ): UiMessage {
    const { images = [], unsent } = more;
    const id = this.#parts.store.messageIds.next();
    const message: UiMessage = { id, kind, text, ...(images.length > 0 && { images }), ...(unsent && { unsent }) };
    this.emit('session.message.appended', { message }, turnId);
    return message;
  }

  /** Number of its newest event that clients may know. */
  get publishedSeq(): number {
    return this.#events.lastSeq;
  }

  /** Resolves when every entry so far was stored, or could not be; undefined where that is so already. Never rejects. */
  settled(): Promise<void> | undefined {
    return this.#unwritten === 0 ? undefined : this.#appended?.catch(() => {});
  }

  async flushed(): Promise<void> {
    this.#flushing += 1;
    try {
      await this.#flush();
    } catch (thrown) {
      const error = asError(thrown);
      this.#unstored(error);
      throw error;
    } finally {
      this.#flushing -= 1;
    }
  }

  async #flush(): Promise<void> {
    // An append that failed may be followed by one that did not; only writing the whole session repairs that.
    for (let attempt = 0; ; attempt += 1) {
      if (this.#failure !== undefined) this.#writeWhole();
      await this.#appended;
      if (this.#failure === undefined) return;
      if (attempt > 0) throw this.#failure;
    }
  }

  /**
   * Stores the state, as soon as the journal has it: a snapshot ahead of the journal would restore the state after a crash, but
   * the events themselves would be lost. True when nothing is left to store.
   */
  snapshot(): boolean {
    this.#snapshotDue = this.#sinceSnapshot > 0 || this.#unlisted;
    return this.#snapshotIfDue();
  }

  /** Ends a turn: stores a long session, and evicts from memory the older parts of its lists. */
  shrink(): void {
    const folded = this.#folded;
    if (folded !== undefined && LISTS.some((list) => folded[list].held > 2 * NEWEST[list])) this.snapshot();
  }

  #snapshotIfDue(): boolean {
    if (!this.#snapshotDue) return true;
    if (this.#unwritten > 0 || this.#failure !== undefined || this.#state === 'deleted') return false;
    const { folded } = this;
    const head = headOf(folded);
    this.#snapshotDue = false;
    this.#sinceSnapshot = 0;
    try {
      this.#headSize = this.#parts.store.catalogue.save(this.#row(), head, listChanges(folded));
    } catch (thrown) {
      this.#parts.log.warn('a session snapshot could not be written', { session: this.id, error: String(thrown) });
      return false;
    }
    for (const list of LISTS) {
      folded[list].stored();
      // A turn that runs reads its history again and again.
      if (folded.record.turn === null && folded[list].held > 2 * NEWEST[list])
        folded[list].trim(this.#parts.store.catalogue.chunks(this.id, list), NEWEST[list]);
    }
    this.#unlisted = false;
    return true;
  }

  /** True when its row of the catalogue is behind. */
  get unlisted(): boolean {
    return this.#unlisted;
  }

  /** Brings its row of the catalogue up to date. */
  list(): void {
    if (!this.#unlisted) return;
    this.#parts.store.catalogue.put(this.#row());
    this.#unlisted = false;
  }

  /** Unloads its state, which is loaded again when it is read. False when it cannot be stored: then it stays loaded. */
  unload(): boolean {
    if (this.#folded === undefined) return true;
    // A session whose first entry is not in the journal could not be loaded again.
    if (this.#cursor === 0 || !this.snapshot()) return false;
    this.#folded = undefined;
    return true;
  }

  /** Notes that a backend did not stop within its grace period and was abandoned. */
  abandoned(turnId: string, graceMs: number): void {
    this.#parts.log.warn('a backend did not stop and was abandoned', { session: this.id, turn: turnId, graceMs });
  }

  /** Drops entries from now on, as if the process had ended here. */
  seal(): void {
    if (this.#state === 'open') this.#state = 'sealed';
  }

  /** Deletes the session: a holder of this object gets `session_closed` from `emit`. */
  delete(): void {
    this.#state = 'deleted';
  }

  /** Returns the row the catalogue should have. */
  #row(): SessionRow {
    const { record } = this;
    return {
      id: this.id,
      owner: record.owner,
      title: record.title,
      cwd: record.cwd,
      backend: record.backend,
      createdAt: Date.parse(record.createdAt),
      updatedAt: Date.parse(record.updatedAt),
      messageCount: this.folded.messages.length,
      pending: isPending(record),
      closed: record.phase === 'closed',
      queueLength: record.queue.length,
      approvalsPending: record.approvals.filter(({ state }) => state === 'pending').length,
      parent: record.parent,
      subagent: record.subagent,
      seq: record.seq,
      cursor: this.#cursor,
    };
  }

  #takesEntries(): boolean {
    if (this.#state === 'deleted') {
      throw fail('session_closed', `session ${this.id} was deleted`, { session_id: this.id });
    }
    return this.#state === 'open';
  }

  #refold({ cursor, ts, kind, body }: JournalEntry): void {
    const folded = this.#folded as FoldedSession;
    this.#cursor = cursor;
    this.#sinceSnapshot += 1;
    this.#unlisted = true;
    if (kind === RESERVED) return;
    const entry = this.#read({ cursor, ts, kind, body }, folded.record.seq);
    if (entry !== undefined) fold(folded, entry);
    else this.#parts.log.warn('an entry of a session cannot be read', { session: this.id, cursor });
  }

  /**
   * Returns a journal entry in the fold's form; `seq` is the number of the newest event before it. Undefined for a body that is
   * not JSON.
   */
  #read({ cursor, ts, kind, body }: Omit<JournalEntry, 'request'>, seq: number): FoldEntry | undefined {
    if (typeof body !== 'string') return undefined;
    try {
      if (!isEventCursor(cursor)) {
        return { kind, payload: this.payloadOf(body), timestamp: iso(ts), seq, size: body.length };
      }
      const params = paramsOf(body, this.images);
      const { message } = params.payload as { readonly message?: Partial<UiMessage> };
      return { kind, ...params, size: body.length + storedChars(message?.images) };
    } catch {
      return undefined;
    }
  }

  #write(entry: NewEntry, isVolatile: boolean): void {
    this.#cursor = entry.cursor;
    this.#unlisted = true;
    // Behind an entry that is missing nothing is written but the whole session: see `flushed`.
    if (this.#failure === undefined) this.#append(entry, isVolatile);
    this.#sinceSnapshot += 1;
    const due = Math.max(SNAPSHOT_ENTRIES, this.#headSize / HEAD_CHARACTERS_PER_ENTRY);
    if (this.#sinceSnapshot >= due) this.snapshot();
  }

  #reserve(seq: number, ts: number): void {
    this.#reserved = seq + RESERVE_EVENTS;
    this.#write({ cursor: this.#cursor + 1, ts, kind: RESERVED, request: '', body: '{}' }, true);
  }

  #append(entry: NewEntry, isVolatile: boolean): void {
    const { owner } = this.record;
    if (owner !== '') this.#parts.storage.add(this.id, owner, (entry.body as string).length);
    const appended = this.#parts.journal.append(streamOf(this.id), [entry], isVolatile ? 'volatile' : 'durable');
    if (isVolatile) return;
    this.#appended = appended;
    const seq = seqAt(entry.cursor);
    // A journal in memory: stored as far as it ever is.
    if (appended === undefined) return this.#events.stored(seq);
    this.#unwritten += 1;
    this.#parts.unwritten.add(this);
    const done = (): void => {
      this.#unwritten -= 1;
      if (this.#unwritten === 0) this.#parts.unwritten.delete(this);
    };
    appended.then(
      () => {
        done();
        if (this.#failure === undefined) this.#events.stored(seq);
        this.#snapshotIfDue();
      },
      (thrown: unknown) => {
        done();
        const error = asError(thrown);
        if (this.#failure === undefined) {
          this.#parts.log.error('a session could not be journaled', { session: this.id, error });
          // After the other appends of the same commit have failed.
          queueMicrotask(() => this.#mend());
        }
        this.#failure = error;
      },
    );
  }

  /** Tries to store the whole session at once, so that its events can leave; `flushed` reports a failure. */
  #mend(): void {
    if (this.#flushing === 0 && this.#failure !== undefined && this.#state !== 'deleted')
      this.flushed().catch(() => {});
  }

  /** Handles a failure to store the session. */
  #unstored(error: HandfastError): void {
    if (this.#state !== 'open' || this.#failure === undefined) return;
    this.#events.fail(error);
    this.#parts.onUnstored(this, error);
  }

  /** Journals the whole session in place of the entries that are missing. */
  #writeWhole(): void {
    this.#failure = undefined;
    this.#events.retry();
    this.note('record.restored', wholeOf(this.folded));
  }
}

/** True while a turn runs or the session is busy otherwise. */
export const isPending = ({ phase }: SessionRecord): boolean => phase === 'running' || phase === 'interrupting';

const iso = (ts: number): string => new Date(ts).toISOString();
