/**
 * The methods with which the client of an editor lends a session the editor's files and terminals. `session/editors.ts` has the
 * requests.
 *
 * Only the owner of a session may attach an editor to it: its tools then read, write and run through the editor.
 */
import { editorNext, editorReply } from '../../../protocol/session-rpc.ts';
import type { Editors } from '../../../session/editors.ts';
import type { Principal } from '../../../session/principal.ts';
import type { SessionAction } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import type { SessionLog } from '../../contract/session-log.ts';

export interface EditorHandlerDeps {
  readonly editors: Editors;
  readonly sessions: {
    /** Returns a session the principal may use. Fails with `session_not_found`. */
    openFor(principal: Principal, id: string, action: SessionAction): SessionLog;
  };
}

/** `editor.next` and `editor.reply`. */
export function editorHandlers({ editors, sessions }: EditorHandlerDeps): readonly Handled[] {
  const checkOwner = (id: string, { caller: { principal } }: RpcCall): void => {
    const { record } = sessions.openFor(principal, id, 'drive');
    if (record.owner === principal.name) return;
    throw fail('unauthorized', 'only the owner of a session may attach an editor to it', { reason: 'not_owner' });
  };
  return [
    handles(editorNext, ({ session_id: id, reads = false, writes = false, terminals = false }, call) => {
      checkOwner(id, call);
      return editors.next(id, call.caller.connectionId, { reads, writes, terminals }, call.signal);
    }),
    handles(editorReply, ({ session_id: id, request_id, result, error }, call) => {
      checkOwner(id, call);
      return { accepted: editors.reply(id, call.caller.connectionId, request_id, { result, error }) };
    }),
  ];
}
