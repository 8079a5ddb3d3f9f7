/**
 * An agent that sends raw messages to a host over one end of an in-memory pair: a {@link ScriptedPeer} with the terms
 * of A2E.
 */
import type { Host } from '../../src/host/host.ts';
import { type ScriptedMessage, ScriptedPeer } from '../../src/testing/scripted-peer.ts';
import { memoryPair } from '../../src/transport/memory.ts';

export type Message = ScriptedMessage;

export class RawAgent extends ScriptedPeer {
  /** Resolves with the next message that replies to `id`, skipping others. */
  answer(id: string): Promise<Message> {
    return this.reply(id);
  }

  /** Performs the handshake and returns the reply. */
  shake(body: Message = {}): Promise<Message> {
    return this.handshake('a2e', { agent_id: 'test', ...body });
  }
}

/** Connects a raw agent to a host. */
export function rawAgent(host: Pick<Host, 'accept'>): RawAgent {
  const [ours, theirs] = memoryPair();
  host.accept(theirs);
  return new RawAgent(ours);
}
