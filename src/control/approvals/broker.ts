/**
 * Decides approvals: by policy first, then by a remembered no, by the session's setting, by a remembered yes, and then by the
 * user: each rule or answer that forbids comes before an answer that allowed once.
 *
 * A request is settled exactly once, by the first of these: an answer, its expiry, the end of its last waiter. It is removed
 * from the pending map before waiters are notified: a waiter may call back and must not settle it twice.
 */
import { randomUUID } from 'node:crypto';
import { Deadlines } from '../../base/deadlines.ts';
import { setNewest } from '../../base/evict-oldest.ts';
import { nextTurn } from '../../base/next-turn.ts';
import { SerialWork } from '../../base/serial-work.ts';
import type { Approval, ApprovalAnswer, SessionSettings } from '../../protocol/session-types.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { ApprovalRequest, Approver, IncludedCall } from '../contract/approver.ts';
import type { SessionLog } from '../contract/session-log.ts';
import { CommandReader } from './commands/command-reader.ts';
import { type Coverage, coverageOf } from './coverage.ts';
import { type Policy, type PolicySubject, riskPolicy, strictestOf, type Verdict } from './policy.ts';
import { type DirectoryRules, type RememberedAnswer, RememberedAnswers } from './remembered.ts';
import { WaitingStatus } from './waiting-status.ts';

export interface ApprovalBrokerOptions {
  /** Default: a call that only reads is allowed, all others are asked. */
  readonly policy?: Policy;
  /** Reads the commands of calls. Default: one parser. */
  readonly reader?: CommandReader;
  /** Stores answers for directories; default: they hold for their session alone. */
  readonly directories?: DirectoryRules;
  /** For sessions that set none. Default `ask`. */
  readonly defaultMode?: NonNullable<SessionSettings['approvals']>;
  /** False where no user can answer: a request that would be asked is denied, also in sessions that allow. Default true. */
  readonly attended?: boolean;
  /** Time for an answer where the request names none, in milliseconds. Default one hour. */
  readonly timeoutMs?: number;
  /** Maximum number of requests of one session that wait at once; past it they are denied. Default 64. */
  readonly maxPending?: number;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
}

const DEFAULT_TIMEOUT_MS = 60 * 60 * 1000;
const MAX_TIMEOUT_MS = 7 * 24 * 60 * 60 * 1000;
const DEFAULT_MAX_PENDING = 64;

/** Settled requests in memory, beyond those of the session's record: a late answer gets the decision. */
const MAX_SETTLED = 1024;

const UNATTENDED = 'no user can answer here';

const NO_RULES: DirectoryRules = { get: () => [], add: () => {} };

/** A request that waits for an answer. */
interface Pending {
  /** The session as it is open now. */
  log: SessionLog;
  readonly approval: Approval;
  /** Monotonic. */
  readonly deadlineAt: number;
  /** The callers that wait for it; none right after a restart. */
  readonly waiters: Set<Waiter>;
}

/** A caller that waits for a request: called once, with the decision or with the failure to ask. */
interface Waiter {
  settled(approval: Approval): void;
  failed(error: HandfastError): void;
}

/** The part of an approval that ends its request. */
type Outcome = Pick<Approval, 'state' | 'answer' | 'answered_by'>;

export class ApprovalBroker implements Approver {
  readonly #policy: Policy;
  readonly #reader: CommandReader;
  readonly #remembered: RememberedAnswers;
  readonly #defaultMode: NonNullable<SessionSettings['approvals']>;
  readonly #attended: boolean;
  readonly #timeoutMs: number;
  readonly #maxPending: number;
  readonly #status = new WaitingStatus();
  readonly #slow = new SerialWork();
  readonly #now: () => number;
  readonly #newId: () => string;
  readonly #pending = new Map<string, Pending>();
  /** Oldest first. */
  readonly #settled = new Map<string, { readonly owner: string; readonly approval: Approval }>();
  readonly #deadlines = new Deadlines<Pending>(
    () => this.#pending.values(),
    (pending) => this.#settle(pending, { state: 'expired' }),
  );

  constructor(options: ApprovalBrokerOptions = {}) {
    this.#policy = options.policy ?? riskPolicy;
    this.#reader = options.reader ?? new CommandReader();
    this.#remembered = new RememberedAnswers(options.directories ?? NO_RULES, this.#reader);
    this.#defaultMode = options.defaultMode ?? 'ask';
    this.#attended = options.attended ?? true;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#maxPending = options.maxPending ?? DEFAULT_MAX_PENDING;
    this.#now = options.now ?? Date.now;
    this.#newId = options.newId ?? randomUUID;
  }

  async ask(log: SessionLog, turnId: string, request: ApprovalRequest, signal: AbortSignal): Promise<Approval> {
    const loading = request.risks.includes('exec') ? this.#reader.ready() : undefined;
    if (loading !== undefined) await loading;
    // Many slow decisions in a row would make all other clients wait.
    if (this.#policy.slow) await this.#slow.run(() => new Promise<void>(nextTurn));
    const known = this.#earlier(log, turnId, request);
    if (known !== undefined && known.state !== 'pending') return known;
    const draft = known ?? this.#draft(log, turnId, request);
    if (signal.aborted) return this.#done(draft, { state: 'cancelled' });
    if (known === undefined) {
      let decided = this.#decide(log, draft, request);
      if (decided.state === 'pending' && request.possible !== undefined) {
        const isPossible = await request.possible();
        if (!isPossible || signal.aborted) return this.#done(draft, { state: 'cancelled' });
        // Meanwhile another answer may have been given for this one, too.
        decided = this.#decide(log, draft, request);
      }
      if (decided.state !== 'pending') return decided;
      const pending = this.#put(log, decided, this.#timeoutOf(request));
      const answer = this.#wait(pending, signal);
      // A client may answer at once, so the request is registered before it is announced.
      this.#announce(pending);
      return answer;
    }
    return this.#wait(this.#pending.get(known.id) ?? this.#adopt(log, known), signal);
  }

  /**
   * Answers a request. The content of a question was checked against its schema by the caller; a question is always
   * answered for once, and so is a call that no remembered yes covers.
   */
  answer(log: SessionLog, id: string, answer: ApprovalAnswer, by: string): ReturnType<Approver['answer']> {
    const stored = log.record.approvals.find((approval) => approval.id === id);
    let pending = this.#pending.get(id);
    if (pending === undefined && stored?.state === 'pending') pending = this.#adopt(log, stored);
    if (pending === undefined || pending.approval.session_id !== log.record.id) {
      const approval = pending === undefined ? (stored ?? this.#settledOf(log.record.owner, id)) : undefined;
      if (approval === undefined) throw fail('not_found', `no approval ${id}`, { approval_id: id });
      return { approval, accepted: false };
    }
    const { decision, remember, content, reason } = answer;
    const { kind } = pending.approval;
    const given: ApprovalAnswer =
      kind === 'question'
        ? { decision, remember: 'once', content }
        : {
            decision,
            remember: decision === 'allow' && !this.#mayLast(pending) ? 'once' : remember,
            ...(reason !== undefined && { reason }),
          };
    const state = decision === 'allow' ? 'allowed' : 'denied';
    return { approval: this.#settle(pending, { state, answer: given, answered_by: by }), accepted: true };
  }

  restore(log: SessionLog): void {
    this.#remembered.restore(log);
    for (const approval of log.record.approvals) {
      if (approval.state !== 'pending') continue;
      const pending = this.#pending.get(approval.id) ?? this.#adopt(log, approval);
      // The session was loaded again since the request was made: its events go to the new object.
      pending.log = log;
      if (approval.turn_id !== log.record.turn?.id) this.#settle(pending, { state: 'cancelled' });
    }
  }

  /**
   * Finds a request by its id, for answering it: with its session while it waits, with its owner and its outcome afterwards.
   */
  find(id: string): { readonly owner: string; readonly approval: Approval; readonly log?: SessionLog } | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return this.#settled.get(id);
    return { owner: pending.log.record.owner, approval: pending.approval, log: pending.log };
  }

  /** Requests that wait, oldest first. */
  *waiting(): Generator<{ readonly owner: string; readonly approval: Approval }> {
    for (const { log, approval } of this.#pending.values()) yield { owner: log.record.owner, approval };
  }

  /** Requests that were decided since the start, oldest first, as many as are remembered. */
  *decided(): Generator<{ readonly owner: string; readonly approval: Approval }> {
    yield* this.#settled.values();
  }

  /** Ends with the server: waiters get `cancelled`; the requests stay pending in their sessions. */
  close(): void {
    this.#deadlines.clear();
    const left = [...this.#pending.values()];
    this.#pending.clear();
    for (const { approval, waiters } of left) notify(waiters, this.#done(approval, { state: 'cancelled' }));
  }

  /**
   * Returns the request that this one repeats: the same call of the same turn, or a question without a waiter since a restart.
   */
  #earlier(log: SessionLog, turnId: string, { kind, title, tool, schema }: ApprovalRequest): Approval | undefined {
    const shape = JSON.stringify(schema ?? null);
    // One that is being stored is pending and not in the record yet.
    const pending = [...this.#pending.values()].map(({ approval }) => approval);
    const known = [...log.record.approvals, ...pending.filter(({ session_id }) => session_id === log.record.id)];
    return known.find((approval) => {
      if (approval.turn_id !== turnId || approval.kind !== kind || approval.state === 'cancelled') return false;
      if (tool !== undefined) return approval.tool?.call_id === tool.call_id && approval.tool.name === tool.name;
      const alone = (this.#pending.get(approval.id)?.waiters.size ?? 0) === 0;
      const same = approval.title === title && JSON.stringify(approval.schema ?? null) === shape;
      return approval.tool === undefined && approval.state === 'pending' && alone && same;
    });
  }

  #draft(log: SessionLog, turnId: string, request: ApprovalRequest): Approval {
    const { kind, title, tool, risks, schema } = request;
    const now = this.#now();
    return {
      id: this.#newId(),
      session_id: log.record.id,
      turn_id: turnId,
      kind,
      title,
      ...(tool !== undefined && { tool }),
      ...(tool !== undefined && kind === 'tool' && { covers: this.#coverageOf(tool, risks, log).words }),
      risks,
      reason: kind === 'question' ? 'the agent asks' : '',
      ...(schema !== undefined && { schema }),
      created_at: new Date(now).toISOString(),
      expires_at: new Date(now + this.#timeoutOf(request)).toISOString(),
      state: 'pending',
    };
  }

  #timeoutOf({ timeoutMs = this.#timeoutMs }: ApprovalRequest): number {
    return Math.min(Math.max(timeoutMs, 1), MAX_TIMEOUT_MS);
  }

  /**
   * Decides a request that need not be asked. Allowing is silent; a denial is an event, so that the user sees why nothing
   * happened.
   */
  #decide(
    log: SessionLog,
    draft: Approval,
    { toolKind = '', refused, confirmed, includes = [] }: ApprovalRequest,
  ): Approval {
    const { record } = log;
    const mode = this.#attended ? (record.settings.approvals ?? this.#defaultMode) : 'deny';
    const denied = (reason: string, by: string): Approval => {
      const approval = this.#done({ ...draft, reason }, { state: 'denied', answered_by: by });
      this.#emit(log, 'approval.resolved', approval);
      return approval;
    };
    if (refused !== undefined) return denied(refused, 'rights');
    if (draft.kind === 'question') {
      if (mode === 'deny') return denied(this.#attended ? 'this session answers no questions' : UNATTENDED, 'settings');
      return this.#roomFor(log) ? draft : denied('too many questions wait already', 'limit');
    }
    const { tool = { name: '', input: {} }, risks } = draft;
    const place = {
      session: { id: record.id, owner: record.owner, title: record.title, cwd: record.cwd, backend: record.backend },
      turn: { id: draft.turn_id },
    };
    const own = this.#policy.decide({ tool: { name: tool.name, kind: toolKind, input: tool.input }, risks, ...place });
    const verdict = strictestOf([own, ...includes.map((call) => this.#included(call, place))]);
    const allowed = (reason: string, by: string): Approval =>
      this.#done({ ...draft, reason }, { state: 'allowed', answered_by: by });
    if (verdict.decision === 'allow') return allowed(verdict.reason, 'policy');
    if (verdict.decision === 'deny') return denied(verdict.reason, 'policy');
    const known = draft.tool && this.#remembered.find(log, this.#coverageOf(draft.tool, risks, log));
    if (known?.decision === 'deny') return denied(known.reason, 'remembered');
    if (mode === 'deny') {
      return denied(this.#attended ? 'this session denies what would be asked' : UNATTENDED, 'settings');
    }
    if (mode === 'allow' && verdict.mayBeDenied !== undefined) return denied(verdict.mayBeDenied, 'policy');
    if (mode === 'allow') return allowed('this session allows without asking', 'settings');
    if (known !== undefined && verdict.mayBeDenied === undefined) return allowed(known.reason, 'remembered');
    if (confirmed && verdict.mayBeDenied === undefined)
      return allowed('the user allowed this very change', 'confirmed');
    if (!this.#roomFor(log)) return denied('too many questions wait already', 'limit');
    return { ...draft, reason: verdict.reason };
  }

  /** Decides about a call that another one makes. An input that is not known yet could be one that a rule denies. */
  #included(call: IncludedCall, place: Pick<PolicySubject, 'session' | 'turn'>): Verdict {
    const { name, kind, input, risks, computed = false } = call;
    const verdict = this.#policy.decide({ tool: { name, kind, input }, risks, ...place });
    const reason = `it calls ${name}: ${verdict.reason}`;
    if (!computed || verdict.decision === 'deny' || this.#policy.byInput === undefined) return { ...verdict, reason };
    const unknown = `it calls ${name} with an input that is not known yet`;
    return { decision: 'ask', reason: unknown, ...(this.#policy.byInput === 'denies' && { mayBeDenied: unknown }) };
  }

  #roomFor(log: SessionLog): boolean {
    let waiting = 0;
    for (const pending of this.#pending.values()) if (pending.log.record.id === log.record.id) waiting++;
    return waiting < this.#maxPending;
  }

  #put(log: SessionLog, approval: Approval, leftMs: number): Pending {
    const deadlineAt = performance.now() + Math.min(Math.max(leftMs, 0), MAX_TIMEOUT_MS);
    const pending: Pending = { log, approval, deadlineAt, waiters: new Set() };
    this.#pending.set(approval.id, pending);
    this.#deadlines.watch(deadlineAt);
    // A pending question must not keep an otherwise idle process alive.
    this.#deadlines.rest();
    return pending;
  }

  /** Makes a stored request pending again, with the time left by the wall clock: the monotonic clock did not survive. */
  #adopt(log: SessionLog, approval: Approval): Pending {
    return this.#put(log, approval, Date.parse(approval.expires_at) - this.#now());
  }

  #wait(pending: Pending, signal: AbortSignal): Promise<Approval> {
    const { promise, resolve, reject } = Promise.withResolvers<Approval>();
    const { approval, waiters } = pending;
    const abort = (): void => {
      waiters.delete(waiter);
      resolve(this.#done(approval, { state: 'cancelled' }));
      if (waiters.size === 0) this.#settle(pending, { state: 'cancelled' });
    };
    const waiter: Waiter = {
      settled(end) {
        signal.removeEventListener('abort', abort);
        resolve(end);
      },
      failed(error) {
        signal.removeEventListener('abort', abort);
        reject(error);
      },
    };
    waiters.add(waiter);
    signal.addEventListener('abort', abort, { once: true });
    return promise;
  }

  /** Emits a request once it is stored; by then it may be settled. One that cannot be stored is cancelled. */
  #announce(pending: Pending): void {
    const { approval, waiters } = pending;
    const request = (): void => {
      if (this.#pending.get(approval.id) !== pending) return;
      if (this.#emit(pending.log, 'approval.requested', approval)) this.#status.requested(pending.log, approval);
      else this.#settle(pending, { state: 'cancelled' });
    };
    let stored: Promise<void> | undefined;
    try {
      stored = pending.log.persistApproval(approval);
    } catch {
      // The session was deleted.
      this.#settle(pending, { state: 'cancelled' });
      return;
    }
    if (stored === undefined) return request();
    stored.then(request, (thrown: unknown) => {
      const error = asError(thrown);
      for (const waiter of waiters) waiter.failed(error);
      waiters.clear();
      this.#settle(pending, { state: 'cancelled' });
    });
  }

  /** Settles a pending request; for another one it only returns the decision. */
  #settle(pending: Pending, outcome: Outcome): Approval {
    const { log, approval, waiters } = pending;
    const earlier = this.#settled.get(approval.id);
    if (!this.#pending.delete(approval.id)) return earlier?.approval ?? approval;
    const settled = this.#done(approval, outcome);
    setNewest(this.#settled, approval.id, { owner: log.record.owner, approval: settled }, MAX_SETTLED);
    const given = this.#remembered.add(log, settled);
    this.#emit(log, 'approval.resolved', settled);
    this.#status.resolved(log, settled);
    notify(waiters, settled);
    if (given.size > 0) this.#spread(log, settled, given);
    return settled;
  }

  /** Settles the other requests that an answer covers which holds for longer. */
  #spread(
    log: SessionLog,
    { answer, answered_by, state }: Approval,
    given: ReadonlyMap<string, RememberedAnswer>,
  ): void {
    const { owner, cwd } = log.record;
    for (const other of [...this.#pending.values()]) {
      const { record } = other.log;
      const { kind, tool, risks } = other.approval;
      const near = answer?.remember === 'directory' && record.owner === owner && record.cwd === cwd;
      if (answer === undefined || kind !== 'tool' || tool === undefined) continue;
      if (record.id !== log.record.id && !near) continue;
      const known = this.#remembered.find(other.log, this.#coverageOf(tool, risks, other.log), given);
      if (known?.decision !== answer.decision) continue;
      this.#settle(other, { state, answer: { decision: answer.decision, remember: 'once' }, answered_by });
    }
  }

  #coverageOf(tool: NonNullable<Approval['tool']>, risks: readonly string[], log: SessionLog): Coverage {
    return coverageOf(tool, risks, log.record.cwd, this.#reader);
  }

  #mayLast({ approval: { tool, risks }, log }: Pending): boolean {
    return tool !== undefined && this.#coverageOf(tool, risks, log).lasting;
  }

  #done(approval: Approval, outcome: Outcome): Approval {
    return { ...approval, ...outcome, resolved_at: new Date(this.#now()).toISOString() };
  }

  #settledOf(owner: string, id: string): Approval | undefined {
    const settled = this.#settled.get(id);
    return settled?.owner === owner ? settled.approval : undefined;
  }

  /** False when the session was deleted: then no client follows it. */
  #emit(log: SessionLog, type: 'approval.requested' | 'approval.resolved', approval: Approval): boolean {
    try {
      log.emit(type, { approval }, approval.turn_id);
      return true;
    } catch {
      return false;
    }
  }
}

function notify(waiters: Set<Waiter>, approval: Approval): void {
  for (const waiter of waiters) waiter.settled(approval);
  waiters.clear();
}
