/**
 * The methods of the toolkits capability, with their checks and options. `tool/call/req` calls tools of toolkits.
 *
 * @see docs/toolkits.md
 */
import { methodsOf } from '../../protocol/method.ts';
import * as checks from './toolkits.generated.ts';
import type * as schema from './toolkits.schema.ts';

const toolkits = methodsOf({ capability: 'toolkits', event: 'toolkit/event', idempotent: true });

export const toolkitList = toolkits<schema.ToolkitListReq, schema.ToolkitListResp>(
  'toolkit/list/req',
  checks.ToolkitListReq,
  // The first plugin with a name owns it.
  {
    merge(replies) {
      const seen = new Set<string>();
      return {
        toolkits: replies.flatMap((reply) => reply.toolkits).filter(({ name }) => !seen.has(name) && seen.add(name)),
      };
    },
  },
);
export const toolkitConfigure = toolkits<schema.ToolkitConfigureReq, schema.ToolkitConfigureResp>(
  'toolkit/configure/req',
  checks.ToolkitConfigureReq,
  { stored: (request) => ({ ...request, config: null }) },
);
export const toolkitDescribe = toolkits<schema.ToolkitDescribeReq, schema.ToolkitDescribeResp>(
  'toolkit/describe/req',
  checks.ToolkitDescribeReq,
);
export const toolkitEnable = toolkits<schema.ToolkitEnableReq, schema.ToolkitEnableResp>(
  'toolkit/enable/req',
  checks.ToolkitEnableReq,
);
export const toolkitDisable = toolkits<schema.ToolkitDisableReq, schema.ToolkitDisableResp>(
  'toolkit/disable/req',
  checks.ToolkitDisableReq,
);
export const toolkitSearch = toolkits<schema.ToolkitSearchReq, schema.ToolkitSearchResp>(
  'toolkit/search/req',
  checks.ToolkitSearchReq,
  {
    merge: (replies) => ({
      tools: replies.flatMap(({ tools }) => tools),
      loaded: replies.flatMap(({ loaded }) => loaded),
      tokens: replies.reduce((sum, { tokens }) => sum + tokens, 0),
    }),
  },
);
