/**
 * Messages of other agents to a subagent that accepts no input now: they are delivered with its next task, or as soon as input
 * is accepted. The oldest messages of channels are left out once too much waits; messages to the subagent alone are refused
 * then.
 *
 * One for each subagent of the backends of this folder.
 */
import type { ChannelMessage, SubagentMessage } from '../capabilities/multi_agent/multi_agent.schema.ts';
import { messageText } from './subagent-prompt.ts';

/** Messages of each of the two sorts that wait. */
const MAX_MESSAGES = 100;
/** Their characters; a single message may have more. */
const MAX_CHARS = 32 * 1024;

interface Unread {
  readonly text: string;
  readonly inChannel: boolean;
}

export class UnreadMessages {
  readonly #accept: (text: string) => boolean;
  /** Oldest first. */
  readonly #waiting: Unread[] = [];
  #leftOut = 0;
  /** The first ones that were accepted before. */
  #cameBack = 0;

  /** @param accept gives the subagent a text as input. False: not now. Default: never */
  constructor(accept: (text: string) => boolean = () => false) {
    this.#accept = accept;
  }

  /** Adds a message to the subagent alone. False: too many wait. */
  add(from: string, message: SubagentMessage): boolean {
    const unread = { text: messageText(from, message), inChannel: false };
    this.#drain(this.#accept);
    if (!this.#hasRoom(unread)) return false;
    this.#waiting.push(unread);
    this.#drain(this.#accept);
    return true;
  }

  /** Adds a message of a channel. */
  addSaid(channel: string, { from, message }: ChannelMessage): void {
    const unread = { text: messageText(from, message, channel), inChannel: true };
    this.#drain(this.#accept);
    while (!this.#hasRoom(unread)) {
      const oldest = this.#waiting.findIndex(({ inChannel }) => inChannel);
      this.#waiting.splice(oldest, 1);
      this.#leftOut += 1;
    }
    this.#waiting.push(unread);
    this.#drain(this.#accept);
  }

  /** Adds a text that was accepted as input and not used, behind texts that came back before. */
  back(text: string): void {
    this.#waiting.splice(this.#cameBack, 0, { text, inChannel: false });
    this.#cameBack += 1;
  }

  /** Returns all messages that wait, for the beginning of a prompt. */
  take(): string[] {
    const texts: string[] = [];
    this.#drain((text) => texts.push(text) > 0);
    return texts;
  }

  #hasRoom({ text, inChannel }: Unread): boolean {
    const same = this.#waiting.filter((one) => one.inChannel === inChannel);
    const chars = same.reduce((sum, one) => sum + one.text.length, text.length);
    return same.length === 0 || (same.length < MAX_MESSAGES && chars <= MAX_CHARS);
  }

  /** Delivers in order: texts that were refused before come first, and none is accepted before them. */
  #drain(accept: (text: string) => boolean): void {
    if (this.#leftOut > 0) {
      if (!accept(`(${this.#leftOut} earlier messages of channels are left out.)`)) return;
      this.#leftOut = 0;
    }
    for (let [next] = this.#waiting; next !== undefined && accept(next.text); [next] = this.#waiting) {
      this.#waiting.shift();
      this.#cameBack = Math.max(0, this.#cameBack - 1);
    }
  }
}
