/**
 * The methods of session RPC about approvals. The owner of a session may see and answer its questions, and so may
 * principals with the right to; for all others they do not exist.
 */
import { wrongParam } from '../../protocol/rpc-reader.ts';
import { approvalAnswer, approvalList } from '../../protocol/session-rpc.ts';
import type { Approval, ApprovalAnswer } from '../../protocol/session-types.ts';
import type { Principal } from '../../session/principal.ts';
import { may, must, type SessionAction } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import { type Handled, handles } from '../contract/handlers.ts';
import type { SessionLog } from '../contract/session-log.ts';
import type { ApprovalBroker } from './broker.ts';

/** Longest reason of a denial, in characters. */
const MAX_REASON = 2000;

export interface ApprovalHandlerDeps {
  readonly broker: ApprovalBroker;
  readonly sessions: {
    /** Returns a session the principal may use. Fails with `session_not_found`. */
    openFor(principal: Principal, id: string, action: SessionAction): SessionLog;
    /** Returns the sessions in memory: all that wait for an answer are. */
    opened(): Iterable<SessionLog>;
  };
  /**
   * Checks the content of an answer against the schema of its question. Returns the content to store, with defaults filled
   * in; throws `schema_violation`.
   */
  readonly checkContent: (schema: Readonly<Record<string, unknown>>, content: unknown) => unknown;
  /** Resolves when the answers that were remembered for directories are on disk; rejects when they could not be stored. */
  readonly rulesStored: () => Promise<void>;
}

/** `approval.list` and `approval.answer`. */
export function approvalHandlers({
  broker,
  sessions,
  checkContent,
  rulesStored,
}: ApprovalHandlerDeps): readonly Handled[] {
  return [
    handles(approvalList, ({ session_id: id, all = false }, { caller }) => {
      const one = id === undefined ? undefined : sessions.openFor(caller.principal, id, 'read');
      const asked = [...(one === undefined ? sessions.opened() : [one])].filter(({ record }) =>
        may(caller.principal, 'read', record.owner),
      );
      // Records have the approvals of running turns only.
      const earlier = all ? [...broker.decided()].filter(({ owner }) => may(caller.principal, 'read', owner)) : [];
      const known = [
        ...earlier.map(({ approval }) => approval).filter(({ session_id }) => one === undefined || session_id === id),
        ...asked.flatMap(({ record }) => record.approvals),
      ];
      const approvals = [...new Map(known.map((approval) => [approval.id, approval])).values()]
        .filter(({ state }) => all || state === 'pending')
        .sort((first, second) => (first.created_at < second.created_at ? -1 : 1));
      return { approvals };
    }),

    handles(approvalAnswer, async ({ approval_id: id, decision, remember = 'once', content, reason }, { caller }) => {
      if (decision === undefined) throw wrongParam(approvalAnswer.name, 'decision', 'one of: allow, deny');
      const found = broker.find(id) ?? stored(sessions.opened(), id);
      if (found === undefined || !may(caller.principal, 'read', found.owner)) {
        throw fail('not_found', `no approval ${id}`, { approval_id: id });
      }
      must(caller.principal, 'approve', found.owner);
      const { approval, log } = found;
      if (log === undefined) return { approval, accepted: false };
      const checked = decision === 'allow' ? await contentOf(approval, content, checkContent) : undefined;
      if (reason !== undefined && reason.length > MAX_REASON) {
        throw wrongParam(approvalAnswer.name, 'reason', `at most ${MAX_REASON} characters`);
      }
      const answer: ApprovalAnswer = {
        decision,
        remember,
        ...(checked !== undefined && { content: checked }),
        ...(decision === 'deny' && reason !== undefined && { reason }),
      };
      const { name } = caller.principal;
      const answered = broker.answer(
        log,
        id,
        answer,
        caller.clientName === null ? name : `${name} (${caller.clientName})`,
      );
      // An answered question is not asked again, not even after a crash.
      await log.flushed();
      if (answered.approval.answer?.remember === 'directory') await rulesStored();
      return answered;
    }),
  ];
}

/** Finds a request in the record of an open session that the broker does not know any more. */
function stored(
  sessions: Iterable<SessionLog>,
  id: string,
): { owner: string; approval: Approval; log: SessionLog } | undefined {
  for (const log of sessions) {
    const approval = log.record.approvals.find((one) => one.id === id);
    if (approval !== undefined) return { owner: log.record.owner, approval, log };
  }
  return undefined;
}

async function contentOf(
  { kind, schema, state }: Approval,
  content: Readonly<Record<string, unknown>> | undefined,
  check: ApprovalHandlerDeps['checkContent'],
): Promise<ApprovalAnswer['content']> {
  // A late answer only gets the decision, so its content is not checked.
  if (kind !== 'question' || state !== 'pending') return undefined;
  if (schema === undefined) return content;
  return (await check(schema, content ?? {})) as ApprovalAnswer['content'];
}
