/**
 * The methods of the mcp capability, with their checks and options. `tool/call/req` calls tools of servers.
 *
 * @see docs/mcp.md
 */
import { methodsOf, type Push } from '../../protocol/method.ts';
import * as checks from './mcp.generated.ts';
import type * as schema from './mcp.schema.ts';

const mcp = methodsOf({ capability: 'mcp', event: 'mcp/event' });
const read = { idempotent: true } as const;

export const serverRegister = mcp<schema.ServerRegisterReq, schema.ServerRegisterResp>(
  'mcp/server/register/req',
  checks.ServerRegisterReq,
);
export const serverList = mcp<schema.ServerListReq, schema.ServerListResp>(
  'mcp/server/list/req',
  checks.ServerListReq,
  read,
);
export const serverUnregister = mcp<schema.ServerUnregisterReq, schema.ServerUnregisterResp>(
  'mcp/server/unregister/req',
  checks.ServerUnregisterReq,
);
export const serverAccept = mcp<schema.ServerAcceptReq, schema.ServerAcceptResp>(
  'mcp/server/accept/req',
  checks.ServerAcceptReq,
  read,
);

export const resourceList = mcp<schema.ResourceListReq, schema.ResourceListResp>(
  'mcp/resource/list/req',
  checks.ResourceListReq,
  read,
);
export const resourceRead = mcp<schema.ResourceReadReq, schema.ResourceReadResp>(
  'mcp/resource/read/req',
  checks.ResourceReadReq,
  read,
);
export const resourceSubscribe = mcp<schema.ResourceSubscribeReq, schema.ResourceSubscribeResp>(
  'mcp/resource/subscribe/req',
  checks.ResourceSubscribeReq,
  read,
);
export const resourceUnsubscribe = mcp<schema.ResourceUnsubscribeReq, schema.ResourceUnsubscribeResp>(
  'mcp/resource/unsubscribe/req',
  checks.ResourceUnsubscribeReq,
  read,
);
export const promptList = mcp<schema.PromptListReq, schema.PromptListResp>(
  'mcp/prompt/list/req',
  checks.PromptListReq,
  read,
);
export const promptGet = mcp<schema.PromptGetReq, schema.PromptGetResp>(
  'mcp/prompt/get/req',
  checks.PromptGetReq,
  read,
);

export const resourceTemplateList = mcp<schema.ResourceTemplateListReq, schema.ResourceTemplateListResp>(
  'mcp/resource/template/list/req',
  checks.ResourceTemplateListReq,
  read,
);
export const complete = mcp<schema.CompleteReq, schema.CompleteResp>('mcp/complete/req', checks.CompleteReq, read);

/** Requests from the host, which agents serve and check themselves. */
const anyShape = Object.assign(() => true, { errors: null });
export const sample = mcp<schema.SampleReq, schema.SampleResp>('mcp/sample/req', anyShape, {
  checkReply: checks.SampleResp,
});
export const elicit = mcp<schema.ElicitReq, schema.ElicitResp>('mcp/elicit/req', anyShape, {
  checkReply: checks.ElicitResp,
});

export const rootList = mcp<schema.RootListReq, schema.RootListResp>('mcp/root/list/req', anyShape, {
  checkReply: checks.RootListResp,
});

/** The push for a notification of a server. */
export const serverPush: Push<Omit<schema.ServerPush, 'type' | 'id'>> = {
  push: 'mcp/server/push',
  capability: 'mcp',
};
