/**
 * The methods of the tools capability, with their checks and options.
 *
 * @see docs/protocol/a2e.md#tools
 */
import { method } from '../../protocol/method.ts';
import * as checks from './tools.generated.ts';
import type { ToolCallReq, ToolCallResp, ToolListReq, ToolListResp } from './tools.schema.ts';

export type { ToolDescription, ToolParameter, ToolResult } from './tools.schema.ts';
export type { ToolCallReq, ToolCallResp, ToolListReq, ToolListResp };

export const toolList = method<ToolListReq, ToolListResp>({
  request: 'tool/list/req',
  reply: 'tool/list/resp',
  event: 'tool/event',
  capability: 'tools',
  idempotent: true,
  checkRequest: checks.ToolListReq,
  // The first plugin with a name owns it: a call would reach it, so a list must show its description.
  merge(replies) {
    const seen = new Set<string>();
    const tools = replies.flatMap((reply) => reply.tools ?? []).filter(({ name }) => !seen.has(name) && seen.add(name));
    return { tools };
  },
});

export const toolCall = method<ToolCallReq, ToolCallResp>({
  request: 'tool/call/req',
  reply: 'tool/call/resp',
  event: 'tool/event',
  capability: 'tools',
  checkRequest: checks.ToolCallReq,
  // 0 means that the caller sets no timeout; the host's default applies in any case.
  limitMs: ({ timeout }) => (timeout === undefined ? 30_000 : timeout === 0 ? undefined : timeout * 1000),
  streaming: ({ streaming }) => streaming === true,
  // `created_at` is the time of the message: formatting the number again would cost more than the rest.
  writeReply: ({ data }, seconds) => `"data":${JSON.stringify(data)},"created_at":${seconds}`,
});
