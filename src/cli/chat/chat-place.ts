/**
 * The conversation that a slash command runs in: its server and session, its output, and the screen of a user who can choose.
 *
 * Types only; `conversation.ts` implements them.
 */
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlSession } from '../../control-client/session.ts';
import type { TerminalOutput } from '../output/terminal.ts';
import type { Choice } from './screen/prompts.ts';

/** A user at a screen. */
export interface ChatAsker {
  /** Resolves with the value that is chosen; undefined: none. */
  choose(title: string, choices: readonly Choice[]): Promise<string | undefined>;
  /** Resolves with a text that was typed or pasted and not shown; undefined: none. */
  secret(title: string): Promise<string | undefined>;
  /** Puts a text into the input. */
  edit(text: string): void;
}

export interface ChatPlace {
  readonly control: ControlClient;
  readonly terminal: TerminalOutput;
  /** Undefined without a terminal. */
  readonly asker: ChatAsker | undefined;
  readonly session: ControlSession;
  /** Aborted when the conversation ends. */
  readonly ended: AbortSignal;
  enter(session: ControlSession): Promise<void>;
  leave(): void;
}
