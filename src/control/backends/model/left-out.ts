/**
 * Parts of a history that its provider refused, and that no later request has. An item of the history with `leavesOut` names
 * the part: it is appended like any other, so stored items stay unchanged, and clients show the conversation as it was.
 *
 * `refused-requests.ts` adds these items; every request and summary reads them. Pure.
 */
import type { HistoryItem, LeavesOut } from '../../contract/session-log.ts';

type UserItem = Extract<HistoryItem, { role: 'user' }>;

/** Makes an item that leaves out a part of a turn, or of the conversation before it. */
export const leftOutItem = (turn: string, part: LeavesOut['part'], reason: string): HistoryItem => ({
  role: 'user',
  turn,
  text: '',
  // Clients and saved chats do not show it as a prompt.
  unsent: true,
  leavesOut: { part, reason },
});

/** True for an item that leaves something out. */
export const isMark = (item: HistoryItem): item is UserItem & { readonly leavesOut: LeavesOut } =>
  item.role === 'user' && item.leavesOut !== undefined;

/**
 * Returns the history for a model: notes replace the parts that were left out. Returns `history` itself where nothing was left
 * out.
 */
export function withoutLeftOut(history: readonly HistoryItem[]): readonly HistoryItem[] {
  if (!history.some(isMark)) return history;
  const turns = new Map<string, string>();
  const attachments = new Map<string, string>();
  const before = { earlier: -1, attachments: -1, data: -1 };
  let earlier: { readonly turn: string; readonly reason: string } | undefined;
  let reason = '';
  for (const [at, item] of history.entries()) {
    if (!isMark(item)) continue;
    const { leavesOut, turn } = item;
    switch (leavesOut.part) {
      case 'turn':
        turns.set(turn, leavesOut.reason);
        break;
      case 'earlier':
        before.earlier = at;
        earlier = { turn, reason: leavesOut.reason };
        break;
      case 'attachments':
        attachments.set(turn, leavesOut.reason);
        break;
      case 'all_attachments':
        before.attachments = at;
        reason = leavesOut.reason;
        break;
      case 'provider_data':
        before.data = at;
    }
  }
  const noted = new Set<string>();
  const items: HistoryItem[] = [];
  for (const [at, item] of history.entries()) {
    if (isMark(item)) continue;
    if (earlier !== undefined && at < before.earlier && item.turn !== earlier.turn) {
      if (!noted.has('')) items.push(note(item.turn, `The conversation before this is left out: ${earlier.reason}`));
      noted.add('');
      continue;
    }
    const refused = turns.get(item.turn);
    if (refused !== undefined) {
      if (!noted.has(item.turn)) items.push(note(item.turn, `A prompt and the work on it are left out: ${refused}`));
      noted.add(item.turn);
      continue;
    }
    const why = attachments.get(item.turn) ?? (at < before.attachments ? reason : undefined);
    const seen = why === undefined ? item : withoutAttachments(item, why);
    items.push(at < before.data ? withoutData(seen) : seen);
  }
  return items;
}

const note = (turn: string, text: string): HistoryItem => ({ role: 'user', turn, text: `[${text}]`, unsent: true });

function withoutAttachments(item: HistoryItem, reason: string): HistoryItem {
  if (item.role === 'assistant' || !item.images?.length) return item;
  const { images, ...rest } = item;
  const said = `[${images.length === 1 ? 'An attachment is' : `${images.length} attachments are`} left out: ${reason}]`;
  if (rest.role === 'user') return { ...rest, text: rest.text === '' ? said : `${rest.text}\n${said}` };
  return { ...rest, result: [rest.result, said] };
}

/** Returns an item without the data that a provider wanted back with it; a summary keeps its mark. */
function withoutData(item: HistoryItem): HistoryItem {
  if (item.role !== 'assistant' || item.providerData?.provider === undefined) return item;
  const { providerData: _providerData, ...rest } = item;
  return rest;
}
