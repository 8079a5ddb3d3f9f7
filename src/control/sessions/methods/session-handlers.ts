/**
 * The methods about sessions themselves: create, list, load, fork, import, close, delete, rename, configure.
 * @see docs/protocol/session-rpc.md#methods
 */
import { Turns } from '../../../base/turns.ts';
import { wrongParam } from '../../../protocol/rpc-reader.ts';
import {
  sessionClose,
  sessionConfigure,
  sessionCreate,
  sessionDelete,
  sessionFork,
  sessionGet,
  sessionImport,
  sessionList,
  sessionLoad,
  sessionRename,
  sessionResume,
} from '../../../protocol/session-rpc.ts';
import type { Image, SessionSettings, SessionState } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { JsonText } from '../../../wire/json.ts';
import { type Handled, handles } from '../../contract/handlers.ts';
import { importLines } from '../history/exports.ts';
import { type Conversation, conversationOf, copyConversation } from '../history/forks.ts';
import { longReply, readWhole, takesTurns } from '../history/long-replies.ts';
import { pageSize, readCursor, writeCursor } from '../history/page-cursor.ts';
import { stateJson, stateOf, summaryOf } from '../history/views.ts';
import type { OpenSession } from '../log/open-session.ts';
import type { SessionPool } from '../pool/session-pool.ts';
import { type FoldedSession, sizeOfWhole } from '../record/folded.ts';
import { mustBeAllowed } from '../record/session-rights.ts';
import { replyWithImages } from '../record/stored-image.ts';
import type { SessionPlace } from '../store/store-catalogue.ts';
import { isLong } from '../store/store-images.ts';
import type { SessionTurns } from '../turns/session-turns.ts';
import { ownerSeenBy } from './history-handlers.ts';
import { settingsFrom } from './settings-params.ts';
import type { HandlerDeps } from './turn-handlers.ts';

export interface SessionHandlerDeps extends HandlerDeps {
  readonly pool: SessionPool;
  /** Names of all backends. */
  readonly backendNames: readonly string[];
  /** The backend of sessions that name none. */
  readonly defaultBackend: () => string;
  /** Returns the working directory that a client asked for, absolute. Throws `schema_violation`. */
  readonly resolveCwd: (cwd: string | undefined, principal: Principal) => string;
  readonly changed: SessionChanged;
}

/** Called when sessions come and go; only the owner of a session gets its id. */
export type SessionChanged = (reason: string, session: { readonly id: string; readonly owner: string }) => void;

/** A new session. */
interface NewSession {
  readonly owner: string;
  readonly title: string;
  readonly cwd: string;
  readonly settings: SessionSettings;
  readonly parent: string | null;
  readonly conversation?: Conversation;
}

const LISTED = { usual: 50, most: 500 };
/** Pieces of a copied conversation that are stored in one turn of the event loop. Most conversations have fewer. */
const PIECES_AT_ONCE = 4;

/** Lists that are asked for at once take no more of a turn of the event loop than a few of them. */
const listing = new Turns();

/** Returns the handlers. */
export function sessionHandlers(deps: SessionHandlerDeps): readonly Handled[] {
  return [...readingHandlers(deps), ...creatingHandlers(deps), ...openingHandlers(deps), ...changingHandlers(deps)];
}

/** `session.get`, `session.list`. */
function readingHandlers({ pool, sessionFor }: SessionHandlerDeps): readonly Handled[] {
  const { catalogue } = pool.parts.store;
  return [
    handles(sessionGet, ({ session_id, messages }, call) => {
      const { folded } = sessionFor(session_id, call).session;
      if (messages !== undefined) return replyWithImages(stateOf(folded, messages));
      if (takesTurns(sizeOfWhole(folded))) return stateReply(folded, undefined, (state) => state);
      return new JsonText(
        () => stateJson(folded),
        () => stateOf(folded),
      );
    }),

    handles(sessionList, async ({ cursor, limit, cwd, include_closed, query }, { caller: { principal } }) => {
      while (listing.over) await listing.next();
      const place = cursor === undefined ? undefined : readListCursor(cursor);
      const size = pageSize(limit, LISTED.usual, LISTED.most);
      const filter = { owner: ownerSeenBy(principal) ?? undefined, cwd, includeClosed: include_closed, query };
      pool.listAll();
      const rows = catalogue.page(filter, place, size + 1);
      // Counting the hits of a query reads all titles: once for a list, not once a page.
      const total = place?.total ?? catalogue.count(filter);
      const page = rows.slice(0, size);
      const last = page.at(-1);
      const counted = query === undefined ? [] : [total];
      return {
        sessions: page.map(summaryOf),
        next_cursor:
          rows.length > size && last !== undefined ? writeCursor([last.updatedAt, last.id, ...counted]) : null,
        total,
      };
    }),
  ];
}

/** Replies with the state of a session; with `newest`, with at most that number of its messages. */
async function stateReply<Reply extends object>(
  folded: FoldedSession,
  newest: number | undefined,
  reply: (state: SessionState) => Reply,
): Promise<JsonText<Reply>> {
  if (newest !== undefined) return replyWithImages(reply(stateOf(folded, newest)));
  await readWhole(folded);
  return longReply(reply(stateOf(folded)), sizeOfWhole(folded));
}

/** Returns the start of a page of `session.list`, and the count of the first page where the cursor has it. */
function readListCursor(cursor: string): SessionPlace & { readonly total?: number } {
  const [updatedAt, id, total] = readCursor(cursor, ['number', 'string', 'number?'], sessionList.name, 'cursor');
  return { updatedAt, id, ...(total !== undefined && { total }) };
}

/** `session.create`, `session.fork`, `session.import`. */
function creatingHandlers(deps: SessionHandlerDeps): readonly Handled[] {
  const { sessionFor, backendNames, resolveCwd, defaultBackend } = deps;
  return [
    handles(sessionCreate, (params, { caller: { principal } }) => {
      const settings = settingsFrom(params, sessionCreate.name);
      if (settings.backend !== undefined && !backendNames.includes(settings.backend)) {
        throw wrongParam(sessionCreate.name, 'backend', `one of: ${backendNames.join(', ')}`);
      }
      mustBeAllowed(principal, principal.name, { ...settings, backend: settings.backend ?? defaultBackend() });
      const cwd = resolveCwd(params.cwd, principal);
      return create(principal, { owner: principal.name, title: params.title ?? '', cwd, settings, parent: null }, deps);
    }),

    handles(sessionFork, async ({ session_id, through_turn_id, title, messages }, call) => {
      const { principal } = call.caller;
      const { folded } = sessionFor(session_id, call).session;
      await readWhole(folded);
      const { record } = folded;
      const { cwd, settings, owner } = record;
      const conversation = conversationOf(folded, through_turn_id);
      return create(
        principal,
        { owner, title: title ?? record.title, cwd, settings, parent: session_id, conversation },
        deps,
        messages,
      );
    }),

    handles(sessionImport, async ({ lines, title, cwd: asked }, { caller: { principal } }) => {
      if (lines === undefined) throw wrongParam(sessionImport.name, 'lines', 'an array of strings');
      const conversation = await importLines(lines);
      const cwd = importedCwd(asked, conversation.cwd, principal, resolveCwd);
      const owner = principal.name;
      return create(
        principal,
        { owner, title: title ?? conversation.title, cwd, settings: {}, parent: null, conversation },
        deps,
      );
    }),
  ];
}

async function create(
  caller: Principal,
  { owner, title, cwd, settings, parent, conversation }: NewSession,
  { pool, newId, defaultBackend, changed }: SessionHandlerDeps,
  newest?: number,
) {
  pool.parts.storage.mustHaveRoom(caller);
  pool.mustHaveMemory(owner);
  const id = newId();
  const backend = settings.backend ?? defaultBackend();
  const turns = await pool.create(id, { owner, cwd, backend, title, settings, parent_session_id: parent });
  const { session } = turns;
  try {
    const { messageIds } = pool.parts.store;
    if (conversation !== undefined) await copied(turns, conversation, () => messageIds.next());
    await session.flushed();
  } catch (thrown) {
    await pool.undo(turns);
    throw thrown;
  }
  changed('session_created', { id, owner });
  return stateReply(session.folded, newest, (state) => ({ session_id: id, state }));
}

/** Copies a conversation into a new session: a long one in turns of the event loop, in which no prompt starts. */
async function copied(turns: SessionTurns, conversation: Conversation, nextMessageId: () => number): Promise<void> {
  const { session } = turns;
  const work = copyConversation(session, await withStoredImages(session, conversation), nextMessageId);
  for (let pieces = 0; pieces < PIECES_AT_ONCE; pieces += 1) if (work.next().done === true) return;
  await turns.exclusively('interrupted', async (signal) => {
    do {
      // One commit for each piece.
      await session.flushed();
      signal.throwIfAborted();
      session.repeatStatus();
    } while (work.next().done !== true);
  });
}

/** Stores the long images of a conversation for a session, each image once, though a message and the history have it. */
async function withStoredImages(session: OpenSession, conversation: Conversation): Promise<Conversation> {
  const stored = new Map<string, Promise<Image>>();
  const one = (image: Image): Image | Promise<Image> => {
    if (!isLong(image)) return image;
    const known = stored.get(image.dataUrl) ?? session.storeImages([image]).then(([put = image]) => put);
    stored.set(image.dataUrl, known);
    return known;
  };
  const all = async <Item extends object>(items: readonly Item[]): Promise<readonly Item[]> => {
    const done: Item[] = [];
    for (const item of items) {
      const { images } = item as { readonly images?: readonly Image[] };
      done.push(images === undefined ? item : { ...item, images: await Promise.all(images.map(one)) });
    }
    return done;
  };
  return { ...conversation, messages: await all(conversation.messages), history: await all(conversation.history) };
}

/** Returns the folder of an imported session: the given one, else the exported one if it exists here. */
function importedCwd(
  asked: string | undefined,
  exported: string | undefined,
  principal: Principal,
  resolveCwd: SessionHandlerDeps['resolveCwd'],
): string {
  if (asked !== undefined || exported === undefined) return resolveCwd(asked, principal);
  try {
    return resolveCwd(exported, principal);
  } catch {
    return resolveCwd(undefined, principal);
  }
}

/** `session.load`, `session.resume`, `session.close`, `session.delete`. */
function openingHandlers(deps: SessionHandlerDeps): readonly Handled[] {
  const { pool, sessionFor, changed } = deps;
  const { chats } = pool.parts.store;
  return [
    handles(sessionLoad, async ({ session_id, messages, after_seq }, call) => {
      const { session } = await reopened(sessionFor(session_id, call), deps);
      const replayed_to_seq = await call.replay(session_id, after_seq);
      return stateReply(session.folded, messages, (state) => ({ session_id, state, replayed_to_seq }));
    }),

    handles(sessionResume, async ({ session_id, messages }, call) => {
      const { session } = await reopened(sessionFor(session_id, call), deps);
      return stateReply(session.folded, messages, (state) => ({ session_id, state }));
    }),

    handles(sessionClose, async ({ session_id }, call) => {
      const turns = sessionFor(session_id, call);
      const { session } = turns;
      if (session.record.phase !== 'closed') {
        await turns.close('closed');
        pool.noteLive(session);
        await session.flushed();
        changed('session_closed', { id: session_id, owner: session.record.owner });
      }
      return { session_id, closed: true as const };
    }),

    handles(sessionDelete, async ({ session_id }, call) => {
      const turns = sessionFor(session_id, call);
      const { session } = turns;
      const { owner } = session.record;
      if (session.record.phase === 'closed') session.emit('session.closed', { reason: 'deleted' });
      else await turns.close('closed', 'deleted');
      const { chatId } = session.record;
      const chat = chatId === null ? undefined : chats.get(chatId);
      // The chat it created is removed too, unless another session has continued it.
      if (chat?.origin === session_id && chat.length === session.folded.chatLength) chats.remove(chat.id);
      await pool.delete(turns);
      changed('session_deleted', { id: session_id, owner });
      return { session_id, deleted: true as const };
    }),
  ];
}

/** Opens a closed session again. */
async function reopened(turns: SessionTurns, { pool, changed }: SessionHandlerDeps): Promise<SessionTurns> {
  const { session } = turns;
  // The session of a subagent ends with the subagent; it can be read, and forked.
  if (session.record.phase !== 'closed' || session.record.subagent !== null) return turns;
  pool.mustHaveRoom(session.record.owner);
  turns.reopen();
  pool.noteLive(session);
  await session.flushed();
  changed('session_loaded', { id: session.id, owner: session.record.owner });
  return turns;
}

/** `session.rename`, `session.configure`. */
function changingHandlers({ pool, sessionFor }: SessionHandlerDeps): readonly Handled[] {
  const { chats } = pool.parts.store;
  return [
    handles(sessionRename, async ({ session_id, title }, call) => {
      const { session } = sessionFor(session_id, call);
      session.emit('session.renamed', { title });
      const { chatId } = session.record;
      const chat = chatId === null ? undefined : chats.get(chatId);
      if (chat !== undefined && chat.length === session.folded.chatLength) chats.rename(chat.id, title);
      await session.flushed();
      return { session_id, title };
    }),

    handles(sessionConfigure, async ({ session_id, ...params }, call) => {
      const { session } = sessionFor(session_id, call);
      const chosen = settingsFrom(params, sessionConfigure.name);
      mustBeAllowed(call.caller.principal, session.record.owner, chosen);
      const settings = { ...session.record.settings, ...chosen };
      session.emit('session.configured', { settings });
      await session.flushed();
      return { session_id, settings };
    }),
  ];
}
