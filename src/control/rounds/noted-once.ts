/** Lines for the user about the tools and the requests of a session. */
import type { Turn } from '../contract/backend.ts';

/** Writes a line for the user, once in a session. */
export function notedOnce({ id, log }: Pick<Turn, 'id' | 'log'>, line: string): void {
  const isKnown = log.record.messages.some(({ kind, text }) => kind === 'system' && text === line);
  if (!isKnown) log.appendMessage('system', line, id);
}
