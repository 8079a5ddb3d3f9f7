/**
 * A workload of the session benchmark: contenders that are measured one after the other in every round, and the figures
 * of each measurement. `rounds.ts` runs them.
 */

/** Settings of every workload. */
export interface Timed {
  /** Duration of a measurement that counts calls, milliseconds. */
  readonly durationMs: number;
}

export interface Settings extends Timed {
  /** Processes started for one measurement of a start. */
  readonly starts: number;
  /** Chunks of the answer of one streamed turn. */
  readonly chunks: number;
  /** Turns of one measurement of the first chunk. */
  readonly firstChunks: number;
  /** The stored session that is opened: a number of turns with a number of events. */
  readonly stored: { readonly turns: number; readonly eventsPerTurn: number };
}

/** One number of a measurement; it becomes a separate row. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly lowerIsBetter: boolean;
}

/** Figure → value. A contender may leave figures out that mean nothing for it. */
export type Measurement = Readonly<Record<string, number>>;

export interface Contender<Given = Settings> {
  /** `bare`, `limit`, `handfast…`, or the name of the npm package. */
  readonly name: string;
  /** Measures once. Everything it needs runs already. */
  measure(settings: Given): Promise<Measurement>;
}

export interface Workload<Given = Settings> {
  readonly name: string;
  /** `none`: the contenders are processes that send nothing while they are measured. */
  readonly transport: 'none' | 'stdio' | 'tcp' | 'unix' | 'websocket' | 'http';
  readonly figures: readonly Figure[];
  /** Started processes; they stay for all rounds, so that each round meets warm code. */
  readonly contenders: readonly Contender<Given>[];
  /** A note for the table, known when all rounds are over. */
  note?(): string;
  /** Ends its processes. */
  close(): Promise<void>;
}

/** Longest wait for one answer of any server. */
export const ANSWER_WAIT_MS = 30_000;

/** Parameters of the benchmark's handshakes: no events except the subscribed ones. */
export const HANDSHAKE = { client_name: 'bench', events: false } as const;
