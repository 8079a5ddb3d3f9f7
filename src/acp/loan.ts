/**
 * The services that the client of an agent lends it (files and terminals), and the methods of the protocol that ask for
 * them. A loan exists in both directions: an editor lends to a session of the bridge, and Handfast lends to an agent
 * that it runs.
 */
import type { ClientCapabilities } from './sdk.ts';

/** The parts of a loan. */
export interface LoanOffer {
  readonly reads: boolean;
  readonly writes: boolean;
  readonly terminals: boolean;
}

/** The methods of each part. */
export const LOAN_METHODS = {
  'fs/read_text_file': 'reads',
  'fs/write_text_file': 'writes',
  'terminal/create': 'terminals',
  'terminal/output': 'terminals',
  'terminal/wait_for_exit': 'terminals',
  'terminal/kill': 'terminals',
  'terminal/release': 'terminals',
} as const satisfies Readonly<Record<string, keyof LoanOffer>>;

/** A method that asks for a part of a loan. */
export type LoanMethod = keyof typeof LOAN_METHODS;

/** Files and terminals that are lent to an agent. */
export interface AgentLoan {
  readonly offer: LoanOffer;
  /** Answers a request of the agent; fails with a `HandfastError`. `params` have the shape the protocol gives the method. */
  request(method: LoanMethod, params: LoanParams): Promise<object>;
}

/** The parameters of the methods; those a method requires are there. */
export interface LoanParams {
  readonly sessionId: string;
  readonly path?: string;
  readonly content?: string;
  /** From 1. */
  readonly line?: number | null;
  /** In lines. */
  readonly limit?: number | null;
  readonly terminalId?: string;
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly cwd?: string | null;
  readonly outputByteLimit?: number | null;
}

/** Returns the loan that a client's capabilities offer. */
export function offerOf({ fs, terminal }: ClientCapabilities): LoanOffer {
  return { reads: fs?.readTextFile === true, writes: fs?.writeTextFile === true, terminals: terminal === true };
}

/** Returns the capabilities that a client with this loan announces. */
export function capabilitiesOf(offer: LoanOffer | undefined): Pick<ClientCapabilities, 'fs' | 'terminal'> {
  const { reads = false, writes = false, terminals = false } = offer ?? {};
  return { fs: { readTextFile: reads, writeTextFile: writes }, terminal: terminals };
}
