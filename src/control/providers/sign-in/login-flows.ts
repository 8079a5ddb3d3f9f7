/**
 * Running sign-ins: one of a principal per provider, within its share, each reported to its principal step by step in
 * `auth.flow.*` events, and ended at once by `auth.cancel`, by the end of the request (cancelled, or its connection lost), or
 * by the end of the server.
 *
 * @see docs/protocol/session-rpc.md#login
 */
import type { ReleaseSlot, SharedSlots } from '../../../base/shared-slots.ts';
import type { Principal } from '../../../session/principal.ts';
import { may } from '../../../session/rights.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ServerEvents } from '../../contract/events.ts';
import type { RpcCall } from '../../contract/handlers.ts';
import { loginService } from '../accounts/login-service.ts';
import type { LoginProvider } from '../http/endpoints.ts';
import { antigravityLogin } from './antigravity-login.ts';
import type { Connected, LoginDeps, RunningLogin } from './login.ts';
import { type LoginMode, openaiLogin } from './openai-login.ts';

/** Stores a sign-in and reports it; only then the sign-in counts as ended. */
type Done<Result> = (connected: Connected) => Promise<Result>;

export interface LoginFlowOptions extends LoginDeps {
  readonly serverEvents: ServerEvents;
  /** Concurrency limits of sign-ins, by principal. */
  readonly slots: SharedSlots;
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
}

interface Flow {
  readonly provider: LoginProvider;
  /** Name of the principal that started it. */
  readonly principal: string;
  readonly controller: AbortController;
  /** Set once the tokens are there and are being stored: from then on it can only succeed. */
  settled: boolean;
  /** Resolves with its last event. */
  readonly ended: PromiseWithResolvers<void>;
}

/** Longest a user may take. */
const FLOW_TIMEOUT_MS = 15 * 60 * 1_000;

export class LoginFlows {
  readonly #options: LoginFlowOptions;
  readonly #running = new Set<Flow>();

  constructor(options: LoginFlowOptions) {
    this.#options = options;
  }

  /** Signs in to OpenAI. Fails with `over_capacity` past the share, `login_failed`, `cancelled`, or as `done` does. */
  openai<Result>(mode: LoginMode, originator: string | undefined, call: RpcCall, done: Done<Result>): Promise<Result> {
    return this.#run('openai', call, (login) => openaiLogin(this.#options, login, mode, originator), done);
  }

  /** Signs in to Antigravity. Fails as `openai` does, and with `not_configured`. */
  async antigravity<Result>(call: RpcCall, done: Done<Result>): Promise<Result> {
    // Fails before any event: only the operator can fix a missing service.
    const service = loginService('antigravity', this.#options.endpoints);
    return this.#run('antigravity', call, (login) => antigravityLogin(this.#options, login, service), done);
  }

  /** Ends the sign-ins that `principal` started; of all providers, or of one. False = none ran. */
  cancel(provider: LoginProvider | undefined, principal: Principal): boolean {
    const own = [...this.#running].filter(
      (flow) =>
        !flow.settled &&
        (provider === undefined || flow.provider === provider) &&
        (may(principal, 'administer') || flow.principal === principal.name),
    );
    for (const { provider: name, controller } of own) {
      controller.abort(fail('cancelled', `the sign-in to ${name} was cancelled`, { provider: name }));
    }
    return own.length > 0;
  }

  /** Waits until none is running; they end by themselves once the server stops. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended.promise));
  }

  /** Runs one sign-in from its first event to its last, however it ends. */
  async #run<Result>(
    provider: LoginProvider,
    call: RpcCall,
    work: (login: RunningLogin) => Promise<Connected>,
    done: Done<Result>,
  ): Promise<Result> {
    const { serverEvents, slots, stopping } = this.#options;
    const { name: principal } = call.caller.principal;
    if ([...this.#running].some((flow) => flow.provider === provider && flow.principal === principal)) {
      throw fail('login_failed', `a sign-in to ${provider} is already running`, { provider });
    }
    const controller = new AbortController();
    const emit: RunningLogin['emit'] = (type, payload) => serverEvents.emit(type, payload, principal);
    const flow: Flow = { provider, principal, controller, settled: false, ended: Promise.withResolvers() };
    // Added before the slot is granted: a second request must find it.
    this.#running.add(flow);
    let release: ReleaseSlot;
    try {
      release = await slots.acquire(principal, stopping);
    } catch (error) {
      this.#end(flow);
      throw error;
    }
    const timer = setTimeout(
      () => controller.abort(fail('login_failed', 'sign-in was not completed within 15 minutes', { provider })),
      FLOW_TIMEOUT_MS,
    ).unref();
    try {
      emit('auth.flow.started', { provider });
      const signal = AbortSignal.any([call.signal, controller.signal, stopping]);
      signal.throwIfAborted();
      const connected = await work({ provider, principal, signal, emit });
      signal.throwIfAborted();
      flow.settled = true;
      return await done(connected);
    } catch (thrown) {
      const error = asError(thrown, 'login_failed');
      emit('auth.flow.failed', { provider, message: error.message });
      throw error;
    } finally {
      clearTimeout(timer);
      // Ends everything that still waits for this sign-in.
      controller.abort(fail('cancelled', 'the sign-in has ended'));
      release();
      this.#end(flow);
    }
  }

  #end(flow: Flow): void {
    this.#running.delete(flow);
    flow.ended.resolve();
  }
}
