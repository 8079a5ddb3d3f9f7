/**
 * `handfast approve …`: the questions agents ask before they act, answered from any terminal.
 */
import type { ControlClient } from '../../control-client/control.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { type ControlFlags, withControl } from '../connect/open-control.ts';
import { questionOf } from '../output/approval-text.ts';
import type { Terminal } from '../output/terminal.ts';
import { textOf } from '../read-text.ts';
import { byPrefix, type Sought, shownIds } from '../short-id.ts';

const SOUGHT: Sought = { noun: 'approval', missing: 'not_found', see: 'handfast approve ls' };

export async function approveList(
  { all, ...flags }: ControlFlags & { readonly all?: boolean },
  terminal: Terminal,
): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const { approvals } = await control.rpc.approvalList({ all });
    if (terminal.json) return terminal.document(approvals);
    if (approvals.length === 0) return terminal.note('no pending approvals');
    const shown = shownIds(
      approvals.map(({ id }) => id),
      terminal,
    );
    terminal.table(
      ['APPROVAL', 'STATE', 'EXPIRES', 'WHAT'],
      approvals.map((approval, at) => [
        shown[at] as string,
        approval.state,
        approval.expires_at.slice(11, 19),
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
}

export async function approveAnswer(
  ids: readonly string[],
  decision: 'allow' | 'deny',
  { remember, content, ...flags }: AnswerFlags,
  terminal: Terminal,
): Promise<number> {
  const answer = content === undefined ? undefined : contentOf(await textOf(content));
  return withControl(flags, terminal, async ({ control }) => {
    let late = 0;
    for (const id of ids) {
      const approval_id = await fullApprovalId(control, id);
      const { approval, accepted } = await control.rpc.approvalAnswer({
        approval_id,
        decision,
        remember,
        content: answer,
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

function contentOf(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw fail('usage', 'the content of an answer must be a JSON object', {}, error);
  }
  if (!isObject(value)) {
    throw fail('usage', 'the content of an answer must be a JSON object');
  }
  return value as Record<string, unknown>;
}

/** The approval named by an id or a prefix of one. */
async function fullApprovalId(control: ControlClient, id: string): Promise<string> {
  const { approvals } = await control.rpc.approvalList({});
  // One that is no longer pending: the server's error gives its state.
  if (!approvals.some((approval) => approval.id.startsWith(id))) return id;
  return byPrefix(id, approvals, (approval) => approval.id, SOUGHT).id;
}
