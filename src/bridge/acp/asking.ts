/**
 * Approvals in the form in which an editor asks its user: a permission for a tool call, a form for a question.
 */
import type { AgentContext, ClientCapabilities, PermissionOption, ToolCallUpdate } from '../../acp/sdk.ts';
import type { Approval, ApprovalAnswer } from '../../protocol/session-types.ts';
import { type CallFacts, callIdOf, changesOf, startOf } from './tool-calls.ts';

export interface AskingDeps {
  readonly client: Pick<AgentContext, 'request'>;
  readonly capabilities: ClientCapabilities;
  /** Absolute. */
  readonly cwd: string;
  /** Facts about the call that the approval concerns. */
  readonly call: CallFacts | undefined;
  /** Aborts when the approval was decided elsewhere: the editor then closes its dialog. */
  readonly signal: AbortSignal;
}

/**
 * The user's answer; `dismissed`: the editor ended the turn, or closed the dialog; `unable`: this editor cannot show such a
 * question. Rejects when the editor replies with an error, has disconnected, or the signal aborted.
 */
export type Asked = ApprovalAnswer | 'dismissed' | 'unable';

const REJECT = 'deny';

type Remember = ApprovalAnswer['remember'];

/** Asks the user of the editor. */
export function ask(approval: Approval, parts: AskingDeps): Promise<Asked> {
  return approval.kind === 'tool' ? askPermission(approval, parts) : askQuestion(approval, parts);
}

async function askPermission(approval: Approval, { call, cwd, ...parts }: AskingDeps): Promise<Asked> {
  const { tool = { name: 'other', input: {}, call_id: approval.id }, title, risks, covers } = approval;
  // The approval is for the input that will run: the call as it was streamed may have been shortened.
  const facts: CallFacts = { toolKind: call?.toolKind, risks, name: tool.name, input: tool.input };
  const content = changesOf(facts, cwd);
  const what = covers === undefined ? '' : `: ${covers}`;
  const options: PermissionOption[] = [
    { optionId: 'once', kind: 'allow_once', name: 'Allow once' },
    { optionId: 'session', kind: 'allow_always', name: `Allow for this session${what}` },
    { optionId: 'directory', kind: 'allow_always', name: `Always allow in this folder${what}` },
    { optionId: REJECT, kind: 'reject_once', name: 'Reject' },
  ];
  const chosen = await choose(approval, parts, options, {
    toolCallId: callIdOf(approval.turn_id, tool.call_id),
    ...startOf(facts, cwd),
    title,
    status: 'pending',
    ...(content.length > 0 && { content }),
  });
  if (chosen === 'dismissed') return chosen;
  if (chosen === REJECT) return { decision: 'deny', remember: 'once' };
  return { decision: 'allow', remember: chosen as Remember };
}

/** Resolves with the option that the user chose, or `dismissed`. */
async function choose(
  approval: Approval,
  { client, signal }: Pick<AskingDeps, 'client' | 'signal'>,
  options: PermissionOption[],
  toolCall: ToolCallUpdate,
): Promise<string> {
  const { outcome } = await client.request(
    'session/request_permission',
    { sessionId: approval.session_id, toolCall, options },
    { cancellationSignal: signal, stopWaitingOnCancel: true },
  );
  // An option that was not offered is no answer, and so no permission.
  const isOffered = outcome.outcome === 'selected' && options.some(({ optionId }) => optionId === outcome.optionId);
  return isOffered ? outcome.optionId : 'dismissed';
}

async function askQuestion(approval: Approval, parts: AskingDeps): Promise<Asked> {
  const { client, capabilities, signal } = parts;
  const { schema = { type: 'object', properties: {} }, session_id: sessionId, tool, title } = approval;
  if (capabilities.elicitation?.form != null && isForm(schema)) {
    const toolCallId = tool === undefined ? undefined : callIdOf(approval.turn_id, tool.call_id);
    const answer = await client.request(
      'elicitation/create',
      {
        mode: 'form',
        sessionId,
        ...(toolCallId !== undefined && { toolCallId }),
        message: title,
        requestedSchema: { ...schema, type: 'object' } as never,
      },
      { cancellationSignal: signal, stopWaitingOnCancel: true },
    );
    if (answer.action === 'cancel') return 'dismissed';
    if (answer.action !== 'accept') return { decision: 'deny', remember: 'once' };
    return { decision: 'allow', remember: 'once', content: (answer as { content?: Record<string, unknown> }).content };
  }
  const choices = choicesOf(schema);
  if (choices === undefined) return 'unable';
  const options = choices.values.map((value, at): PermissionOption => {
    return { optionId: String(at), kind: 'allow_once', name: String(value) };
  });
  const chosen = await choose(
    approval,
    parts,
    [...options, { optionId: REJECT, kind: 'reject_once', name: 'No answer' }],
    {
      toolCallId: callIdOf(approval.turn_id, tool?.call_id ?? approval.id),
      title,
      kind: 'other',
      status: 'pending',
    },
  );
  if (chosen === 'dismissed') return chosen;
  if (chosen === REJECT) return { decision: 'deny', remember: 'once' };
  return { decision: 'allow', remember: 'once', content: { [choices.member]: choices.values[Number(chosen)] } };
}

type Schema = Readonly<Record<string, unknown>>;

const membersOf = ({ properties }: Schema): [string, Schema][] => Object.entries((properties ?? {}) as object);

/** Returns true if the schema is a form: it holds simple values only. */
function isForm(schema: Schema): boolean {
  const simple = new Set<unknown>(['string', 'number', 'integer', 'boolean', 'array']);
  return membersOf(schema).every(([, { type }]) => simple.has(type));
}

/** Returns the values to choose from, if the question asks for one choice only. */
function choicesOf(schema: Schema): { member: string; values: readonly unknown[] } | undefined {
  const [first, ...others] = membersOf(schema);
  if (first === undefined || others.length > 0) return undefined;
  const [member, { type, enum: values }] = first;
  if (Array.isArray(values) && values.length > 0) return { member, values };
  return type === 'boolean' ? { member, values: [true, false] } : undefined;
}
