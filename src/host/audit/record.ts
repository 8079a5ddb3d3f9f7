/**
 * The data that the audit stores of a request.
 */

/** One handled request. These are the field names in the file. */
export interface AuditRecord {
  /** Arrival of the request, epoch milliseconds. */
  readonly time: number;
  /** Session id; `''` before the handshake. */
  readonly session: string;
  /** Name of the principal; `''` while it is unknown. */
  readonly principal: string;
  /** Id of the fleet's task that the request belongs to. */
  readonly task?: string;
  /** Address of the peer, where it matters: handshakes. */
  readonly peer?: string;
  /** Message type, e.g. `tool/call/req`. */
  readonly type: string;
  /** Name of the tool, for tool calls. */
  readonly tool?: string;
  /** Type of the request that made this call, for calls between capabilities. */
  readonly via?: string;
  /** Present where an editor did the work: it read or wrote a file, or ran a program in its terminal. */
  readonly by?: 'editor';
  readonly request_bytes: number;
  readonly reply_bytes: number;
  readonly duration_ms: number;
  readonly outcome: 'ok' | 'error' | 'cancelled' | 'refused';
  /** Error code of the reply, when it was an error. */
  readonly error_code?: string;
  /** Reason why a call was denied, e.g. `protected_path`. */
  readonly reason?: string;
  /**
   * In a line for several requests: their number. `time` is that of the last, `since` that of the first, sizes and
   * duration are sums. See `repeats.ts`.
   */
  readonly count?: number;
  readonly since?: number;
}
