/**
 * A peer of a host that writes arbitrary bytes and reads lines, like a hostile or broken client. It never uses the
 * project's links, so none of their code is between a fixture and the host.
 *
 * `sites.ts` dials peers over every transport; each transport provides a {@link Carrier}.
 */
import assert from 'node:assert/strict';
import type { Message } from './raw-agent.ts';

/** Longest wait for anything in a test. Far above the usual duration; only present so that a lost wake-up fails. */
export const PATIENCE_MS = 60_000;

/** Puts bytes on one transport. */
export interface Carrier {
  /** Writes bytes unchanged on a byte stream; as one frame or one body if the transport has those. */
  write(bytes: Buffer): void;
  /** Ends the output of this side only. Absent if a transport cannot signal that. */
  end?(): void;
  /** Drops the connection without any order. */
  cut(): void;
  /** Stops (true) or continues (false) reading. Absent where a test has no use for it. */
  pause?(paused: boolean): void;
  /** Bytes written and not yet taken by the system. Absent where a test has no use for it. */
  pending?(): number;
}

/** Events of a carrier for its peer. */
export interface Sink {
  /** Receives text that the host sent: one or several lines, or part of one. */
  bytes(chunk: Buffer | string): void;
  /** Called when the host ended the connection, or it broke. */
  gone(): void;
  /** Status of the answer to a `POST /send`. */
  status(code: number): void;
}

export class Peer implements Sink {
  /** All output of the host, line by line, unchanged. */
  readonly lines: string[] = [];
  readonly messages: Message[] = [];
  /** HTTP only: statuses of the bodies sent, in order. */
  readonly statuses: number[] = [];
  /** Bytes of messages the host sent. */
  received = 0;
  over = false;
  readonly carrier: Carrier;
  /** True once {@link stopAfter} has been reached. */
  stopped = false;
  #limit = Number.POSITIVE_INFINITY;
  #partial = '';
  #next = 0;
  #wake: (() => void)[] = [];
  #sent = 0;

  constructor(open: (sink: Sink) => Carrier) {
    this.carrier = open(this);
  }

  // Output.

  write(bytes: Buffer | string): void {
    this.#sent++;
    this.carrier.write(typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
  }

  /** Sends one message on a separate line. */
  send(message: Message | string): void {
    this.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
  }

  end(): void {
    assert.ok(this.carrier.end !== undefined, 'this transport has no half-close');
    this.carrier.end();
  }

  cut(): void {
    this.carrier.cut();
  }

  /** Ignores the host's output after this number of bytes, as if it were lost on the way. */
  stopAfter(bytes: number): void {
    this.#limit = bytes;
  }

  // Input.

  /** Resolves with the next message that was not taken yet. */
  async next(): Promise<Message> {
    await this.until(() => this.messages.length > this.#next || this.over, 'a message');
    const message = this.messages[this.#next];
    assert.ok(message !== undefined, 'expected a message, but the host ended the connection');
    this.#next++;
    return message;
  }

  /** Resolves with the next message that replies to `id`, skipping others. */
  async answer(id: string): Promise<Message> {
    for (;;) {
      const message = await this.next();
      if (message.req_id === id && !String(message.type).endsWith('/event')) return message;
    }
  }

  /** Messages that were not taken. */
  get rest(): Message[] {
    return this.messages.slice(this.#next);
  }

  closed(): Promise<void> {
    return this.until(() => this.over, 'the host to end the connection');
  }

  /** Resolves when the transport has answered everything sent; nothing to wait for except on HTTP. */
  acknowledged(): Promise<void> {
    return this.until(() => this.over || this.statuses.length >= this.#sent, 'the bodies to be answered');
  }

  async shake(body: Message = {}): Promise<Message> {
    this.send({ type: 'handshake/req', id: 'hs', a2e: '1.0', agent_id: 'peer', agent_caps: ['tools'], ...body });
    return this.answer('hs');
  }

  /** Proves that the connection is usable. */
  async ping(id = `ping ${this.messages.length}`): Promise<Message> {
    this.send({ type: 'ping', id });
    const pong = await this.answer(id);
    assert.equal(pong.type, 'pong');
    return pong;
  }

  async until(done: () => boolean, what: string, patienceMs = PATIENCE_MS): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        const last = this.lines.slice(-3).map((line) => line.slice(0, 300));
        reject(new Error(`waited ${patienceMs} ms for ${what}; last lines: ${last.join(' ')}`));
      }, patienceMs);
    });
    try {
      while (!done()) await Promise.race([new Promise<void>((resolve) => this.#wake.push(resolve)), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  // Sink.

  bytes(chunk: Buffer | string): void {
    if (this.stopped) return;
    const whole = typeof chunk === 'string' ? chunk : chunk.toString('latin1');
    const heard = whole.slice(0, this.#limit - this.received);
    this.received += heard.length;
    this.stopped = this.received >= this.#limit;
    const text = this.#partial + heard;
    const lines = text.split('\n');
    this.#partial = lines.pop() as string;
    for (const line of lines) {
      this.lines.push(line);
      this.messages.push(JSON.parse(line));
    }
    if (lines.length > 0 || this.stopped) this.#stir();
  }

  gone(): void {
    this.over = true;
    this.#stir();
  }

  status(code: number): void {
    this.statuses.push(code);
    this.#stir();
  }

  #stir(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
