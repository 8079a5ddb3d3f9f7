/**
 * A running request of an agent as plugins see it: the connection's request plus session, state and calls to other
 * capabilities.
 */

import type { Log } from '../base/log.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import { STREAM_END } from '../connection/outgoing-calls.ts';
import { type Route, RunningRequest } from '../connection/running-request.ts';
import { EXTENSION_CAPABILITIES } from '../protocol/a2e.ts';
import type { Body, Method } from '../protocol/method.ts';
import { type EditorAccess, noting } from '../session/editors.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import type { Incoming } from '../wire/codec.ts';
import type { HandfastError } from '../wire/errors.ts';
import type { CallContext, NestedCallOptions } from './context.ts';
import { type CallDeps, type Caller, CallTree, callCapability } from './nested-call.ts';
import type { PluginRuntime } from './plugin-runtime.ts';
import type { SessionStores } from './store/store.ts';

export class HostCall extends RunningRequest implements CallContext, Caller {
  readonly session: Session;
  readonly deps: CallDeps;
  readonly depth = 0;
  /** The plugin that serves the request; set by its route. */
  runtime: PluginRuntime | undefined;
  /** The party outside this host that did work for the request; for the audit. */
  by: 'editor' | undefined;
  refusal: HandfastError | undefined;
  #tree: CallTree | undefined;

  constructor(session: Session, incoming: Incoming, route: Route, deps: CallDeps) {
    super(session.connection, incoming, route);
    this.session = session;
    this.deps = deps;
  }

  get log(): Log {
    return this.deps.log;
  }

  get workspace(): string {
    return this.deps.workspace;
  }

  get pathGuard(): PathGuard | undefined {
    return may(this.session.principal, 'administer') ? undefined : this.deps.pathGuard;
  }

  get editor(): EditorAccess | undefined {
    return noting(this.deps.editors?.of(this.session.id), () => {
      this.by = 'editor';
    });
  }

  get store(): SessionStores {
    return (this.runtime as PluginRuntime).store.of(this.session);
  }

  get grant(): unknown {
    return this.runtime?.grantOf(this.session.principal);
  }

  get tree(): CallTree {
    this.#tree ??= new CallTree();
    return this.#tree;
  }

  dataFolder(): Promise<string> {
    return (this.runtime as PluginRuntime).dataFolder();
  }

  acquireThread(signal: AbortSignal = this.signal, waitMs?: number): Promise<() => void> {
    return this.deps.slots.threads.acquire(this.session.principal.name, signal, { waitMs });
  }

  acquireProcess(signal: AbortSignal = this.signal, waitMs?: number): Promise<() => void> {
    return this.deps.slots.processes.acquire(this.session.principal.name, signal, { waitMs });
  }

  override finishStream(error?: HandfastError): void {
    if (!this.subscribed) return;
    if (this.done && this.session.terms.extensions.has(EXTENSION_CAPABILITIES)) {
      const { code = '', message, detail, retryable } = error ?? {};
      void this.emit(STREAM_END, error === undefined ? {} : { error: { code, message, detail, retryable } });
    }
    this.endStream();
  }

  call<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options: NestedCallOptions = {},
  ): Promise<Body<Reply>> {
    return callCapability(this, method as unknown as Method, body, options) as Promise<Body<Reply>>;
  }
}
