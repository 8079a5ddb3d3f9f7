/**
 * `handfast call`: sends a message of any type and prints its answer: for trying out messages without a command.
 */
import { capabilityNames } from '../../protocol/a2e.ts';
import type { ConnectFlags } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import { eventOutput } from '../output/event-output.ts';
import type { Terminal } from '../output/terminal.ts';
import { readText } from '../read-text.ts';
import { jsonObject } from '../tool-arguments.ts';

export interface CallFlags extends ConnectFlags {
  /** Seconds; 0 = no limit. */
  readonly timeout?: number;
  readonly stream?: boolean;
}

/** Sends a message and prints the answer. Asks for every capability, so that the message is not refused for want of one. */
export async function call(
  type: string,
  word: string,
  { timeout, stream = false, ...flags }: CallFlags,
  terminal: Terminal,
): Promise<void> {
  const body = await jsonObject(word, readText);
  await withAgent(flags, capabilityNames, terminal, async ({ agent, signal }) => {
    const { onEvent } = eventOutput(terminal, stream);
    const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
    const reply = await agent.request(type, stream ? { streaming: true, ...body } : body, {
      signal,
      timeoutMs,
      onEvent,
    });
    if (terminal.json) terminal.document(stream ? { result: reply } : reply);
    else terminal.line(JSON.stringify(reply, undefined, 2));
  });
}
