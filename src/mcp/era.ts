/**
 * Which generation of the protocol a server speaks: one with sessions (`initialize`, up to 2025-11-25), or the one without
 * (2026-07-28). Remembered, so that a later connection does not have to find it out again, which costs a program a start.
 *
 * Read and written by `connection.ts`. The caller that makes the server stores it, else it lasts as long as that.
 */

/** A generation of the protocol. */
export type McpEra = 'sessions' | 'stateless';

/** Where the generation of a server is stored. */
export interface EraStore {
  /** Undefined: it is not known. Never rejects. */
  read(): Promise<McpEra | undefined>;
  /** Undefined forgets it. Never rejects. */
  write(era: McpEra | undefined): Promise<void>;
}

/** A generation in memory. */
export function memoryEra(known?: McpEra): EraStore {
  let era = known;
  return {
    read: async () => era,
    async write(changed) {
      era = changed;
    },
  };
}
