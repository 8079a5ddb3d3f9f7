/**
 * The context of every A2E case: connections to the target, and the target's grants.
 */
import { HandfastError } from '../../wire/errors.ts';
import { type Binding, bindingOf } from '../carriers.ts';
import { type Case, type Level, Mismatch, Skip, unanswered } from '../case.ts';
import { type Fields, Transcript } from '../line-peer.ts';
import type { CaseRun } from '../run.ts';
import { A2eConnection, grantedIn, STANDARD_NAMES } from './connection.ts';

/** The user's description of the target. */
export interface A2eTarget {
  readonly address: string;
  /** The shared secret; empty: none. */
  readonly token: string;
  /** Longest wait for one answer, in milliseconds. */
  readonly patienceMs: number;
  /** A harmless tool and its arguments; without it no tool is called. */
  readonly tool?: { readonly name: string; readonly arguments: Fields };
  /** An environment that may be reset and closed; without it none is. */
  readonly env?: string;
  /** A harmless program that ends by itself; without it none is started. */
  readonly program?: readonly string[];
  /** Also cases that leave something behind, such as a plan. */
  readonly writes?: boolean;
}

export type A2eCase = Case<A2eContext>;

/** A case of one binding or capability in a table: id, level, section, title, function. */
export type A2eRow = readonly [id: string, level: Level, section: string, title: string, run: A2eCase['run']];

/** Returns the cases of a table. */
export const casesOf = (rows: readonly A2eRow[]): readonly A2eCase[] =>
  rows.map(([id, level, section, title, run]) => ({ id, level, section, title, run }));

export class A2eContext {
  readonly target: A2eTarget;
  readonly binding: Binding;
  readonly transcript: Transcript;
  readonly #run: A2eRun;
  readonly #opened: A2eConnection[] = [];

  constructor(run: A2eRun) {
    this.#run = run;
    this.target = run.target;
    this.transcript = new Transcript(run.target.token);
    this.binding = bindingOf(run.target.address);
  }

  /** Opens a connection of this case alone, without a handshake. */
  async open(): Promise<A2eConnection> {
    const { address, patienceMs } = this.target;
    const connection = await A2eConnection.open({ address, patienceMs, transcript: this.transcript });
    this.#opened.push(connection);
    return connection;
  }

  /** Opens a connection of this case alone, with an accepted handshake. */
  async session(caps: readonly string[] = [], body: Fields = {}): Promise<A2eConnection> {
    const connection = await this.open();
    await connection.accepted(this.asked(caps, body));
    return connection;
  }

  /** Returns a connection that cases share, with everything that the target grants. */
  async shared(): Promise<A2eConnection> {
    const connection = await this.#run.shared();
    connection.peer.transcript = this.transcript;
    return connection;
  }

  /** Returns the shared connection if the target grants a capability; else skips the case. */
  async granted(capability: string): Promise<A2eConnection> {
    const connection = await this.shared();
    if (!grantedIn(connection.terms ?? {}).includes(capability))
      throw new Skip(`the target does not grant ${capability}`);
    return connection;
  }

  /** Returns the body of a handshake that asks for these capabilities, with the token. */
  asked(caps: readonly string[], body: Fields = {}): Fields {
    return { agent_caps: caps, auth_token: this.target.token, ...body };
  }

  /** Skips the case unless the target is reached by one of these bindings. */
  only(...bindings: readonly Binding[]): void {
    if (!bindings.includes(this.binding)) throw new Skip(`only over ${bindings.join(', ')}`);
  }

  /** Returns the tool that may be called. Skips the case without one. */
  tool(): { readonly name: string; readonly arguments: Fields } {
    if (this.target.tool === undefined) throw new Skip('no tool was named: --tool NAME --args JSON');
    return this.target.tool;
  }

  async end(): Promise<void> {
    await Promise.all(this.#opened.map((connection) => connection.close()));
  }
}

/** A run of A2E cases. */
export class A2eRun implements CaseRun<A2eContext> {
  readonly target: A2eTarget;
  #shared: Promise<A2eConnection> | undefined;

  constructor(target: A2eTarget) {
    this.target = target;
  }

  begin(): A2eContext {
    return new A2eContext(this);
  }

  transcript({ transcript }: A2eContext): Transcript['lines'] {
    return transcript.lines;
  }

  end(context: A2eContext): Promise<void> {
    return context.end();
  }

  /** Returns the grants of the target. Fails with `unreachable`, `timeout`, and the reason of a handshake that is refused. */
  async first(): Promise<{ readonly granted: readonly string[] }> {
    const { terms = {} } = await this.shared();
    return { granted: grantedIn(terms) };
  }

  /** Returns the shared connection; another one when the last has ended. */
  async shared(): Promise<A2eConnection> {
    const last = await this.#shared?.catch(() => undefined);
    if (last === undefined || last.peer.over) {
      await last?.close();
      this.#shared = this.#open();
    }
    return this.#shared as Promise<A2eConnection>;
  }

  /** Closes the shared connection. */
  async close(): Promise<void> {
    await (await this.#shared?.catch(() => undefined))?.close();
  }

  async #open(): Promise<A2eConnection> {
    const { address, patienceMs, token } = this.target;
    const connection = await A2eConnection.open({ address, patienceMs, transcript: new Transcript(token) });
    const terms = await connection
      .handshake({ agent_caps: STANDARD_NAMES, auth_token: token })
      .catch(async (thrown) => {
        await connection.close();
        throw thrown instanceof Mismatch ? unanswered(address, thrown) : thrown;
      });
    if (terms.ok !== false) return connection;
    await connection.close();
    const reason = String(terms.reason ?? '');
    throw new HandfastError(reason || 'server_error', `the target refused the handshake: ${reason || 'no reason'}`);
  }
}
