/**
 * Joins the subagents of a host with the sessions of the same server: the session of the control edge that an agent of the host
 * is, and the way by which the session of a subagent reaches the host as that subagent. One for each server.
 */
import type { ControlServer } from '../../control/control-server.ts';
import type { Editors } from '../../session/editors.ts';
import type { Link } from '../../transport/link.ts';
import { fail } from '../../wire/errors.ts';

/** Settings of a kind of subagents for its sessions: those of `session.create`. */
export interface SessionKindSettings {
  readonly backend?: string | undefined;
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
  readonly thinking?: string | undefined;
  readonly maxRounds?: number | undefined;
  readonly approvals?: 'ask' | 'allow' | 'deny' | undefined;
}

export class SubagentLinks {
  readonly #editors: Pick<Editors, 'sessionOf'>;
  /** Functions that accept a link, by subagent. */
  readonly #accepts = new Map<string, (link: Link) => void>();
  #control: ControlServer | undefined;

  constructor(editors: Pick<Editors, 'sessionOf'>) {
    this.#editors = editors;
  }

  /** Notes that the server of sessions runs; without one no subagent is a session. */
  attach(control: ControlServer | undefined): void {
    this.#control = control;
  }

  /** The server of sessions. Fails with `not_configured` without one. */
  get control(): ControlServer {
    if (this.#control !== undefined) return this.#control;
    throw fail(
      'not_configured',
      'this host serves no sessions, so no subagent can be one; see control in its configuration',
    );
  }

  /** Returns the session of the control edge whose agent this session with the host is. */
  sessionOf(hostSession: string): string | undefined {
    return this.#editors.sessionOf(hostSession);
  }

  /** Links of a subagent go to its host, until the result is called. */
  open(subagent: string, accept: (link: Link) => void): () => void {
    this.#accepts.set(subagent, accept);
    return () => void this.#accepts.delete(subagent);
  }

  /** Gives the host a link as a session of a subagent. Fails with `session_closed` once that has ended. */
  accept(subagent: string, link: Link): void {
    const accept = this.#accepts.get(subagent);
    if (accept === undefined) throw fail('session_closed', 'the subagent of this session has ended');
    accept(link);
  }
}
