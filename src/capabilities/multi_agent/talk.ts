/**
 * Messages between agents: to one agent, and in channels of an agent and some of its subagents, with one order and a history.
 * An agent sends to its subagents, to those of its parent, and to the agent above; to no others.
 *
 * Messages are pushes, so that they are in the journals of their receivers; the backend delivers them to subagents without a
 * session that reads pushes. Channels end with the agent's subagents and with the host.
 */
import { pageOf } from '../../base/page.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import { failure } from './errors.ts';
import { messagePush, saidPush } from './messages.ts';
import type { ChannelMessage, SubagentMessage } from './multi_agent.schema.ts';
import type { Subagent } from './subagent.ts';
import type { Subagents } from './subagents.ts';

/** Maximum characters of a message as JSON. */
const MAX_MESSAGE_CHARS = 64 * 1024;
/** Messages of a channel that are stored. */
const MAX_HISTORY = 1_000;
/** Characters of these messages as JSON. */
const MAX_HISTORY_CHARS = 1024 * 1024;
/** Channels of one agent. */
const MAX_CHANNELS = 64;

interface Channel {
  readonly name: string;
  members: Set<string>;
  readonly messages: ChannelMessage[];
  /** Characters of the messages as JSON. */
  chars: number;
  seq: number;
}

export class Talk {
  readonly #subagents: Subagents;
  /** By the key of the agent that made them, and their name. */
  readonly #channels = new Map<string, Map<string, Channel>>();

  constructor(subagents: Subagents) {
    this.#subagents = subagents;
  }

  /**
   * Sends a message. Returns false if the receiver has ended. Fails with `unknown_subagent` for a receiver that this agent may
   * not send to.
   * @param as the subagent it is from, which must be this agent or one below it; '' for this agent
   */
  send(as: string, to: string, message: SubagentMessage, context: CallContext): boolean {
    const { session } = context;
    mustBeShort(message);
    const self = this.#subagents.selfOf(session);
    if (as !== '' && as !== self?.id) this.#subagents.find(as, context);
    const from = as === '' ? (self?.id ?? '') : as;
    if (to === '') {
      if (self === undefined) throw failure('unknown', 'there is no agent above this one');
      const above = this.#subagents.sessionsAbove(self);
      for (const one of above) one.push(messagePush, { from, message });
      return above.length > 0;
    }
    const other = this.#reached(to, self, context);
    return this.#subagents.deliver(other, from, message);
  }

  /** Returns a subagent of this agent, or one of its parent. */
  #reached(id: string, self: Subagent | undefined, context: CallContext): Subagent {
    const sibling = self && this.#subagents.sibling(self, id);
    return sibling ?? this.#subagents.find(id, context);
  }

  /** Makes or changes a channel of this agent. */
  set(
    {
      channel: name,
      members,
      close = false,
    }: { channel: string; members?: readonly string[] | undefined; close?: boolean | undefined },
    context: CallContext,
  ): Channel {
    const key = this.#subagents.keyOf(context.session);
    const own = this.#channels.get(key) ?? new Map<string, Channel>();
    const known = own.get(name);
    if (members === undefined && !close) return known ?? this.#find(name, context.session);
    if (close) {
      if (known === undefined) throw noChannel(name);
      own.delete(name);
      return { ...known, members: new Set() };
    }
    if (name === '' || name.length > 128) throw failure('invalid', 'a channel has a name', { field: 'channel' });
    for (const id of members ?? []) this.#subagents.find(id, context);
    if (known === undefined && own.size >= MAX_CHANNELS) {
      throw failure('limit', `there may be ${MAX_CHANNELS} channels`, { limit: 'channels', most: MAX_CHANNELS });
    }
    const channel = known ?? { name, members: new Set(), messages: [], chars: 0, seq: 0 };
    channel.members = new Set(members);
    own.set(name, channel);
    this.#channels.set(key, own);
    return channel;
  }

  /** Numbers a message, and sends it to all members of the channel. */
  say(name: string, message: SubagentMessage, { session }: CallContext): number {
    const chars = mustBeShort(message);
    const channel = this.#find(name, session);
    const self = this.#subagents.selfOf(session);
    const isOwn = this.#own(name, session) === channel;
    const said: ChannelMessage = {
      seq: ++channel.seq,
      from: isOwn ? '' : (self?.id ?? ''),
      at: Date.now() / 1000,
      message,
    };
    channel.messages.push(said);
    channel.chars += chars;
    while (channel.messages.length > MAX_HISTORY || channel.chars > MAX_HISTORY_CHARS) {
      channel.chars -= charsOf(channel.messages.shift()?.message);
    }
    const owners = isOwn
      ? this.#subagents.sessionsOf(session)
      : self === undefined
        ? []
        : this.#subagents.sessionsAbove(self);
    for (const one of owners) one.push(saidPush, { channel: name, said });
    for (const id of channel.members) this.#subagents.byId(id)?.said(name, said);
    return said.seq;
  }

  history(name: string, after: number, limit: number, { session }: CallContext) {
    const channel = this.#find(name, session);
    const behind = channel.messages.filter(({ seq }) => seq > after);
    return { messages: pageOf(behind.slice(0, limit), limit).page, last_seq: channel.seq };
  }

  /** Ends the channels of an agent that has ended. */
  closed(session: SessionView): void {
    if (this.#subagents.sessionsOf(session).length === 0) this.#channels.delete(this.#subagents.keyOf(session));
  }

  #own(name: string, session: SessionView): Channel | undefined {
    return this.#channels.get(this.#subagents.keyOf(session))?.get(name);
  }

  /** Returns a channel of this agent, or of the agent above with this one as a member. All other channels are unknown. */
  #find(name: string, session: SessionView): Channel {
    const own = this.#own(name, session);
    if (own !== undefined) return own;
    const self = this.#subagents.selfOf(session);
    const above = self && this.#channels.get(this.#subagents.keyAbove(self))?.get(name);
    if (above === undefined || self === undefined || !above.members.has(self.id)) throw noChannel(name);
    return above;
  }
}

const noChannel = (name: string) =>
  failure('unknown', `there is no channel ${JSON.stringify(name.slice(0, 64))} that this agent is in`);

const charsOf = (message: SubagentMessage | undefined): number => JSON.stringify(message ?? null).length;

/** Returns the characters of a message as JSON; fails if it is too long. */
function mustBeShort(message: SubagentMessage): number {
  const chars = charsOf(message);
  if (chars <= MAX_MESSAGE_CHARS) return chars;
  throw failure('limit', `a message has at most ${MAX_MESSAGE_CHARS} characters`, {
    limit: 'message',
    most: MAX_MESSAGE_CHARS,
  });
}
