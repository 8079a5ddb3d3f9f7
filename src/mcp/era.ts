/**
 * The generation of the protocol that a server speaks: one with sessions (`initialize`, up to 2025-11-25), or the one
 * without (2026-07-28). It is stored, so that a later connection does not have to test for it again, which costs a
 * program a start.
 *
 * The caller that creates the server stores it, else it lasts as long as the server.
 */

/** A generation of the protocol. */
export type McpEra = 'sessions' | 'stateless';

/** The store for the generation of a server. */
export interface EraStore {
  /** Reads the generation; undefined if it is not known. Never rejects. */
  read(): Promise<McpEra | undefined>;
  /** Stores the generation; undefined removes it. Never rejects. */
  write(era: McpEra | undefined): Promise<void>;
}

/** Returns a store in memory. */
export function memoryEra(known?: McpEra): EraStore {
  let era = known;
  return {
    read: async () => era,
    async write(changed) {
      era = changed;
    },
  };
}
