/**
 * The start of an agent: its command line, and the function that starts it. Apart from the files that use the SDK, so
 * that a program can name these types without it.
 */
import type { Link } from '../transport/link.ts';

/** Command line of an agent. */
export interface AgentCommand {
  /** The program, looked up in PATH; no shell is involved. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Set in addition to the server's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Folder in which the process is started; default: the session's directory. */
  readonly cwd?: string;
}

/** Starts a program and resolves with a link over its stdin and stdout: `spawnLink` of the subprocess transport. */
export type StartProgram = (
  options: AgentCommand & { readonly onStderr: (line: string) => void; readonly maxMessageBytes: number },
) => Promise<Link>;
