/**
 * Asking before acting: an approval request, and the approver that decides it. Implemented by `approvals/broker.ts`.
 *
 * A request is an event of its session (`approval.requested`, `approval.resolved`), so it is as durable as the session.
 */
import type { Approval, ApprovalAnswer, ApprovalKind } from '../../protocol/session-types.ts';
import type { SessionLog } from './session-log.ts';

/** A call that another one makes, as far as it is known before. */
export interface IncludedCall {
  readonly name: string;
  /** The kind of the tool; '' where it names none. */
  readonly kind: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly risks: readonly string[];
  /** True: parts of its input are only known when it is made, so a rule that looks at them cannot allow it. */
  readonly computed?: boolean;
}

/** A question to the user. */
export interface ApprovalRequest {
  /** Reason why it is denied without a question: the owner of the session has no right to it. */
  readonly refused?: string;
  readonly kind: ApprovalKind;
  readonly title: string;
  /** For `tool`: the call. Asking again for the same `call_id` of a turn waits for the first request. */
  readonly tool?: {
    readonly name: string;
    readonly input: Readonly<Record<string, unknown>>;
    readonly call_id: string;
  };
  readonly risks: readonly string[];
  /** For `tool`: the kind its offer names, e.g. `file`; policy rules may test it. */
  readonly toolKind?: string;
  /** For `tool`: calls that this one makes. The strictest decision about all of them is that about the call. */
  readonly includes?: readonly IncludedCall[];
  /**
   * For `tool`: checks, before a person is asked, whether the call can be made at all. False: the request comes back as
   * `cancelled`, without an event. Never rejects.
   */
  readonly possible?: () => Promise<boolean>;
  /** For `question`: JSON Schema of the answer's `content`. */
  readonly schema?: Readonly<Record<string, unknown>>;
  /** For `tool`: the user has allowed this very change before, in another request. Where it would be asked, it is allowed. */
  readonly confirmed?: boolean;
  /** Time for an answer in milliseconds; default the configuration's. */
  readonly timeoutMs?: number;
}

export interface Approver {
  /**
   * Decides by policy and remembered answers, or asks and waits. Resolves with the approval as it was decided: `allowed`,
   * `denied`, `expired`, or `cancelled` when `signal` aborts. A call that the policy allows causes no event. A question is on
   * disk before a client gets it; rejects as `SessionLog.flushed` does when it cannot be, and then no client does.
   */
  ask(log: SessionLog, turnId: string, request: ApprovalRequest, signal: AbortSignal): Promise<Approval>;
  /**
   * Answers a request. The first answer wins: `accepted` is false for a later one, and `approval` has the decision.
   * Fails with `not_found`.
   */
  answer(
    log: SessionLog,
    id: string,
    answer: ApprovalAnswer,
    by: string,
  ): { readonly approval: Approval; readonly accepted: boolean };
  /**
   * Restores a session that was loaded again: pending requests get their expiry back; requests of ended turns are cancelled.
   */
  restore(log: SessionLog): void;
}
