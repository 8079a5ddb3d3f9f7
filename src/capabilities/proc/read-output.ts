/** The form in which readers get the output of a process, on every host. */

/** A part of the output: one line with its line break, or a part of a line. */
export interface OutputPiece {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
  /** Counts from 0 within the process. */
  readonly seq: number;
  /** Number of pieces before this one that the host dropped. Default none. */
  readonly missed?: number;
}

export interface OutputOptions {
  /** Number of the first requested piece. Default: the oldest that is stored. */
  readonly from?: number;
  /** False: only the output that is stored now. Default true: until the process has ended. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

/** The end of a process. */
export interface ProcessExit {
  /** Negative for a signal. */
  readonly code: number;
  /** The signal that ended it; '' for none. */
  readonly signal: string;
  /** `exited`, `signal`, `killed`, `timedout`, `limit`, `session_ended` or `host_stopped`. */
  readonly reason: string;
}
