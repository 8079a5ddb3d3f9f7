/**
 * The status of a session while its turn waits for the user. Clients of plain 1.0.0 ignore `approval.*` events, but show every
 * status label: the label names the request that the session waits for and the command that answers it. After the decision the
 * label from before the request returns.
 *
 * @see docs/protocol/session-rpc.md#status-labels
 */
import type { Approval } from '../../protocol/session-types.ts';
import type { SessionLog } from '../contract/session-log.ts';

/** Characters of a title that a label shows: clients have one line for it. */
const TITLE_CHARACTERS = 72;
/** Characters of an id that a label shows; commands accept a prefix. */
const ID_CHARACTERS = 8;

/** The label after a decision in a process that did not see the label from before the request. */
const CONTINUING = 'thinking...';

/** Returns the label while this request waits. */
export function waitingLabel({ id, kind, title }: Pick<Approval, 'id' | 'kind' | 'title'>): string {
  const line = [...title.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')];
  const shown = line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1).join('')}…` : line.join('');
  const wanted = kind === 'tool' ? 'approval' : 'an answer';
  return `waiting for ${wanted}: ${shown} (handfast approve yes|no ${id.slice(0, ID_CHARACTERS)})`;
}

/** Shows and withdraws the status. One for each broker. */
export class WaitingStatus {
  /** Labels that the first pending request replaced, by session. */
  readonly #before = new Map<string, string>();

  /** Notes that a request was sent: the session waits for it now. */
  requested(log: SessionLog, approval: Approval): void {
    const { id, statusLabel } = log.record;
    // A request that repeats after a restart finds the label of its first time.
    if (!this.#before.has(id) && statusLabel !== waitingLabel(approval)) this.#before.set(id, statusLabel);
    this.#emit(log, waitingLabel(approval), approval);
  }

  /** Notes that a request was settled: the next pending one is shown, else the label from before. */
  resolved(log: SessionLog, settled: Approval): void {
    const { record } = log;
    const next = record.approvals.find(({ state, id }) => state === 'pending' && id !== settled.id);
    const before = this.#before.get(record.id) ?? CONTINUING;
    if (next === undefined) this.#before.delete(record.id);
    // Another label has followed, such as `interrupting...`, or another request is the one that is shown.
    if (record.statusLabel !== waitingLabel(settled)) return;
    if (next !== undefined) this.#emit(log, waitingLabel(next), next);
    else this.#emit(log, before, settled);
  }

  #emit(log: SessionLog, label: string, { id, turn_id, state }: Approval): void {
    const detail = state === 'pending' ? { waiting_for: 'approval', approval_id: id } : undefined;
    try {
      log.emit('session.status', { pending: true, status_label: label, ...(detail && { detail }) }, turn_id);
    } catch {
      // The session was deleted: no client follows it.
    }
  }
}
