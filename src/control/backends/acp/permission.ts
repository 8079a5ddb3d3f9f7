/** Questions of an agent to its user, as approvals: permission for a tool call, and questions with a form. */
import { filledIn, formSchema, optionOf } from '../../../acp/answers.ts';
import type {
  CreateElicitationRequest,
  CreateElicitationResponse,
  PermissionOptionKind,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from '../../../acp/sdk.ts';
import { diffsOf, inputOf, nameOf, risksOf, shownDiffs, type ToolFields } from '../../../acp/tool-facts.ts';
import type { Approval } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { may, refusal } from '../../../session/rights.ts';
import type { ApprovalRequest } from '../../contract/approver.ts';

/** Returns the approval for a call, as far as the agent has described it. `callId` must be new for every request. */
export function permissionRequest(fields: ToolFields, callId: string): ApprovalRequest {
  const { title, kind } = fields;
  const name = nameOf(fields);
  const diffs = diffsOf(fields.content).length > 0 ? shownDiffs(fields).shown : undefined;
  return {
    kind: 'tool',
    title: title || name,
    tool: { name, input: { ...inputOf(fields), ...(diffs !== undefined && { diffs }) }, call_id: callId },
    toolKind: kind ?? undefined,
    risks: risksOf(kind ?? undefined),
  };
}

/**
 * Returns the same request, refused where the owner of the session may not call such a tool: the user is not asked about it.
 */
export function withinRights(request: ApprovalRequest, principal: Principal): ApprovalRequest {
  const { tool = { name: '' }, risks } = request;
  if (may(principal, 'call', { name: tool.name, risks })) return request;
  return { ...request, refused: refusal(principal, 'call').message };
}

/**
 * Returns the agent's option for a decision. A decision that holds for the directory is left to the agent too, because its
 * memory may outlive this host's; a decision that holds for the session is remembered here, so the agent asks for each call. An
 * agent without a fitting option gets `cancelled`, which runs nothing.
 */
export function permissionAnswer(
  { state, answer }: Approval,
  options: RequestPermissionRequest['options'],
): RequestPermissionResponse {
  const forGood = answer?.remember === 'directory';
  const kinds: Partial<Record<Approval['state'], readonly PermissionOptionKind[]>> = {
    allowed: forGood ? ['allow_always', 'allow_once'] : ['allow_once', 'allow_always'],
    denied: forGood ? ['reject_always', 'reject_once'] : ['reject_once', 'reject_always'],
    expired: ['reject_once'],
  };
  return optionOf(options, kinds[state] ?? []);
}

/** Returns the question of a form; undefined for a form that this client announced no support for. */
export function questionOf(request: CreateElicitationRequest): ApprovalRequest | undefined {
  const schema = formSchema(request);
  return schema && { kind: 'question', title: request.message, risks: [], schema };
}

/** Returns the agent's form of the answer to a question. */
export function questionAnswer({ state, answer }: Approval): CreateElicitationResponse {
  if (state === 'allowed') return filledIn(answer?.content);
  return { action: state === 'denied' ? 'decline' : 'cancel' };
}
