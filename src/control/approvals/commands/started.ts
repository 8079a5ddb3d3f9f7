/**
 * The result of looking into a command: the programs and scripts that it starts.
 */
import type { Note, SimpleCommand, Word } from './shell-syntax.ts';

/** The programs and scripts that a command starts. */
export interface Started {
  /** Programs with their arguments. */
  readonly commands: readonly SimpleCommand[];
  /** Scripts for a shell. */
  readonly scripts: readonly string[];
  readonly notes: readonly Note[];
  /** Reason why the programs it starts are not known: no rule allows it. */
  readonly unreadable?: string;
  /** Reason why it may start other programs, though a rule may allow it word by word. */
  readonly hidden?: string | undefined;
  /** Texts that may be scripts: only rules that ask or deny look at them. */
  readonly perhaps?: readonly string[];
  /** Commands that it may start, as {@link perhaps}. */
  readonly supposed?: readonly SimpleCommand[];
  /** Each of its words may be a program that it starts. */
  readonly mayStart?: boolean;
  /** The program is in no list. */
  readonly unknown?: boolean;
  /** The file whose code it runs. */
  readonly file?: Word;
  /** Words that may name such files. */
  readonly files?: readonly Word[];
  /** The command itself does nothing but start them: rules need not name it. */
  readonly transparent: boolean;
}

export const NOTHING: Started = { commands: [], scripts: [], notes: [], transparent: false };
export const UNKNOWN = 'what runs is known only when it runs';
export const unknown: Started = { ...NOTHING, unreadable: UNKNOWN };
export const OTHER_LANGUAGE = 'it runs code of a language that rules do not read';
export const hidden: Started = { ...NOTHING, hidden: 'it can start other programs' };
