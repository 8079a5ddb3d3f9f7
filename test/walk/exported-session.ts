/** Lines of an exported session, as `session.import` takes them. */

export const exported = (entries: readonly string[]): string[] => [
  JSON.stringify({ format: 'handfast.session/1', title: 'walked' }),
  ...entries,
];

export const entry = (seq: number, kind: string, payload: object): string =>
  JSON.stringify({ seq, kind, timestamp: '', payload });

/** Returns the entry that an import begins with: a session with only these members. */
export const restored = (seq: number, members: object = {}): string =>
  entry(seq, 'record.restored', { head: {}, history: [], messages: [], turns: [], ...members });
