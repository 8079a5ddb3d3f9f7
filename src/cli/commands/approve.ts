/**
 * `handfast approve …`: the questions agents ask before they act, answered from any terminal.
 */
import type { ControlClient } from '../../control-client/control.ts';
import { typedObject } from '../../packages/command-values.ts';
import { byPrefix, type Sought } from '../../packages/named-id.ts';
import type { Approval } from '../../protocol/session-types.ts';
import { type ApprovalServer, withApprovalServers } from '../connect/approval-servers.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { questionOf } from '../output/approval-text.ts';
import type { Terminal } from '../output/terminal.ts';
import { textOf } from '../read-text.ts';
import { shownIds } from '../short-id.ts';

const SOUGHT: Sought = { noun: 'approval', missing: 'not_found', see: 'handfast approve ls' };

export async function approveList(
  { all, ...flags }: ControlFlags & { readonly all?: boolean },
  terminal: Terminal,
): Promise<void> {
  await withApprovalServers(flags, terminal, async (servers) => {
    const found = await askedBy(servers, all);
    const approvals = found.map(({ approval }) => approval);
    if (terminal.json) return terminal.document(approvals);
    if (approvals.length === 0) return terminal.note('no pending approvals');
    const shown = shownIds(
      approvals.map(({ id }) => id),
      terminal,
    );
    // The editor that asks is of interest only where several are connected.
    const several = servers.length > 1;
    terminal.table(
      ['APPROVAL', 'STATE', 'EXPIRES', ...(several ? ['SERVER'] : []), 'WHAT'],
      found.map(({ approval, server }, at) => [
        shown[at] as string,
        approval.state,
        approval.expires_at.slice(11, 19),
        ...(several ? [server.label] : []),
        questionOf(approval),
      ]),
      ['EXPIRES'],
    );
  });
}

export interface AnswerFlags extends ControlFlags {
  readonly remember?: 'once' | 'session' | 'directory';
  /** JSON object: the answer to a question. */
  readonly content?: string;
  /** Reason of the denial, for the model. */
  readonly reason?: string;
}

export async function approveAnswer(
  ids: readonly string[],
  decision: 'allow' | 'deny',
  { remember, content, reason, ...flags }: AnswerFlags,
  terminal: Terminal,
): Promise<number> {
  const answer =
    content === undefined
      ? undefined
      : typedObject(await textOf(content), 'the content of an answer must be a JSON object');
  return withApprovalServers(flags, terminal, async (servers) => {
    let late = 0;
    for (const id of ids) {
      const { control, approval_id } = await approvalNamed(servers, id);
      const { approval, accepted } = await control.rpc.approvalAnswer({
        approval_id,
        decision,
        remember,
        content: answer,
        reason,
      });
      if (!accepted) late++;
      const once = accepted && approval.kind === 'tool' && approval.answer?.remember !== (remember ?? 'once');
      if (terminal.json) terminal.document({ approval, accepted });
      else if (accepted) terminal.note(`${approval.state}: ${approval.title}${once ? ` (${approval.covers})` : ''}`);
      else
        terminal.note(
          `already ${approval.state}${approval.answered_by ? ` by ${approval.answered_by}` : ''}: ${approval.title}`,
        );
    }
    return late === 0 ? 0 : 5;
  });
}

interface Asked {
  readonly approval: Approval;
  readonly server: ApprovalServer;
}

/** Returns the approvals of all servers, oldest first. */
async function askedBy(servers: readonly ApprovalServer[], all?: boolean): Promise<Asked[]> {
  const lists = await Promise.all(
    servers.map(async (server) => {
      const { approvals } = await server.control.rpc.approvalList({ all });
      return approvals.map((approval) => ({ approval, server }));
    }),
  );
  return lists.flat().sort((a, b) => (a.approval.created_at < b.approval.created_at ? -1 : 1));
}

/** Returns the approval named by an id or a prefix of one, and the server that asks. */
async function approvalNamed(
  servers: readonly ApprovalServer[],
  id: string,
): Promise<{ control: ControlClient; approval_id: string }> {
  // One that is no longer pending: the server's reply gives its state.
  const found = await askedBy(servers, !(await askedBy(servers)).some(({ approval }) => approval.id.startsWith(id)));
  const { approval, server } = byPrefix(id, found, (asked) => asked.approval.id, SOUGHT);
  return { control: server.control, approval_id: approval.id };
}
