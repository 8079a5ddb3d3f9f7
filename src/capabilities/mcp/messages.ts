/**
 * The methods of the mcp capability: what `client.ts` calls and `plugin.ts` serves. Tools of servers are called by `tool/call/req`.
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

/** A server sent a notification. */
export const serverPush: Push<Omit<schema.ServerPush, 'type' | 'id'>> = {
  push: 'mcp/server/push',
  capability: 'mcp',
};
