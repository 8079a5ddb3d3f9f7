/**
 * The transport contract: a link moves whole messages, in order, both ways, and has one close.
 *
 * Byte pipes (stdio, subprocess, TCP, Unix sockets) frame with `wire/frame.ts`; WebSocket and HTTP frames carry one or
 * several newline-separated messages; the in-memory pair hands message objects over by reference. No code above this
 * file knows the kind of transport. `test/contract/transport.test.ts` holds every transport to this contract.
 */

/** A decoded message, as JSON.parse gives it. */
export type Message = Record<string, unknown>;

/** Reason why a piece of input is malformed. The link has already skipped it and continues to read. */
export interface Malformed {
  readonly reason: 'too_large' | 'bad_utf8';
  /** The limit that was passed, in bytes, when `reason` is `too_large`. */
  readonly limit?: number;
}

/** The end of a link. */
export interface CloseInfo {
  /** True when both sides closed in order. */
  readonly clean: boolean;
  /** One short line for logs and error messages. */
  readonly reason: string;
  /** The process exit code, for a subprocess. */
  readonly exitCode?: number | null;
}

/**
 * Receives the messages of a link. Calls are made in order, never before {@link Link.open} returned, and never after
 * `closed`. A receiver must not throw.
 */
export interface LinkReceiver {
  /**
   * Handles one whole message: JSON text on a text link (no newline, never blank), an object on the in-memory pair. May
   * return the code of the error (a text) when the input was no message: the HTTP binding, the only one with responses
   * to input, passes the code on. Any other returned value is ignored.
   */
  message(message: string | Message): unknown;
  /** Handles input that could not be a message. */
  malformed(problem: Malformed): void;
  /** Called at most once, when the peer has ended its output and may still read. Not every transport can report this. */
  ended(): void;
  /** Called exactly once, last, when the link has ended. */
  closed(cause: CloseInfo): void;
}

/** Sizes a link must respect. All bytes. */
export interface LinkLimits {
  /** Longest message accepted, in bytes of UTF-8. Default 1 MiB, at most 64 MiB. */
  readonly maxMessageBytes: number;
}

export const DEFAULT_MAX_MESSAGE_BYTES = 1024 * 1024;
/** Longest prompt or import of session RPC. A longer one would hold the event loop too long: some 3 ms a MiB in one turn. */
export const DEFAULT_MAX_PROMPT_BYTES = 16 * 1024 * 1024;
export const MESSAGE_BYTES_CEILING = 64 * 1024 * 1024;
/** Longest line accepted before the handshake. */
export const PRE_HANDSHAKE_MAX_MESSAGE_BYTES = 64 * 1024;

export type TransportKind = 'memory' | 'stdio' | 'subprocess' | 'tcp' | 'unix' | 'websocket' | 'http';

/** Gets the number of bytes that arrived, and of those that are held because their message is not complete. */
export type LinkMeter = (bytes: number, incomplete: number) => void;

/** One open link to one peer. */
export interface Link {
  readonly transport: TransportKind;
  /** The peer, for logs and audit: an address or a command line. Never contains a secret. */
  readonly peer: string;
  /** True when `send` expects JSON text; false on the in-memory pair, which expects objects. */
  readonly text: boolean;

  /**
   * Starts delivery to `receiver`. Called again, it replaces the receiver (an accepted link is attached to
   * its session); later messages go to the new one, nothing is delivered twice.
   */
  open(receiver: LinkReceiver): void;

  /**
   * Queues one message; all messages of one turn of the event loop leave in one write. Never throws, never blocks;
   * does nothing once the link is closing. Text must contain no raw newline (JSON text never does); the link makes it
   * ASCII on the wire.
   */
  send(message: string | Message): void;

  /** Bytes queued here and not yet accepted by the operating system (the in-memory pair counts a nominal size a message). */
  readonly buffered: number;

  /**
   * Changes whenever the system accepts buffered bytes. If it stays equal while `buffered` > 0, the peer is not
   * reading. Undefined if this is unknown: on the in-memory pair, and on an accepted HTTP link while no event stream is
   * attached, whose buffer has its own limit.
   */
  readonly progress?: number | undefined;

  /**
   * Changes whenever anything arrives from the peer: bytes, a frame, a keep-alive comment of a stream. Undefined while
   * this side does not read, since silence then proves nothing about the peer, and on the in-memory pair.
   */
  readonly received?: number | undefined;

  /** Set by the owner of an accepted link. Not called on the in-memory pair. */
  meter?: LinkMeter | undefined;

  /** True once the link has ended, by either side. */
  readonly isClosed?: boolean;

  /** Makes the transport probe the peer; the response counts as received. Absent where the transport has no probe. */
  probe?(): void;

  /** Resolves when `buffered` is at or below `lowWaterBytes`, or the link is closed. Never rejects. */
  drained(lowWaterBytes?: number): Promise<void>;

  /** Stops (true) or continues (false) reading from the peer, which applies backpressure to its sender. */
  pause(paused: boolean): void;

  /** Changes the longest accepted message; used when the handshake is accepted. */
  setMaxMessageBytes(bytes: number): void;

  /**
   * Ends the output after the queued messages and continues to receive: the other side sees the end of its input.
   * Absent if a transport cannot; then only `close` is possible.
   */
  end?(): void;

  /**
   * Sends the queued messages, then closes; resolves when the link has ended. Bounded: after `graceMs` (default 2,000)
   * it is dropped. Calling it again returns the same promise.
   */
  close(reason?: string, graceMs?: number): Promise<void>;

  /** Drops the link at once, queued output included. */
  destroy(reason?: string): void;
}

/** A server that accepts links. `address` is the one that a client passes to `connect()`. */
export interface Listener {
  readonly address: string;
  /** Stops accepting; links already accepted continue. Idempotent. */
  close(): Promise<void>;
}
