/** Output of a process as readers get it: of one form, on every host. */

/** A part of the output: one line with its line break, or a part of a line. */
export interface OutputPiece {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
  /** Counts from 0 within the process. */
  readonly seq: number;
  /** How many pieces before this one were dropped by the host. Default none. */
  readonly missed?: number;
}

export interface OutputOptions {
  /** Number of the first piece wanted. Default: the oldest that is stored. */
  readonly from?: number;
  /** False: what is stored now. Default true: until the process has ended. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

/** How a process ended. */
export interface ProcessExit {
  /** Negative for a signal. */
  readonly code: number;
  /** The signal that ended it; '' for none. */
  readonly signal: string;
  /** `exited`, `signal`, `killed`, `timedout`, `limit`, `session_ended` or `host_stopped`. */
  readonly reason: string;
}
