/** `tools.list`: the tools a model is given in the server's own working directory, with the rights of the caller. */
import { toolTokens } from '../../base/tool-definitions.ts';
import { toolsList } from '../../protocol/session-rpc.ts';
import type { Principal } from '../../session/principal.ts';
import { type Handled, handles } from '../contract/handlers.ts';
import type { Environments } from './environments.ts';

/** Returns name of the A2E session that lists are made in; no control session has an empty id. */
const sessionFor = (principal: Principal): string => `:${principal.name}`;

/** @param cwd absolute path of the server's working directory */
export function toolsListHandler(environments: Environments, cwd: string): Handled {
  return handles(toolsList, async (_params, { caller: { principal } }) => {
    const offers = await environments.for(sessionFor(principal), { cwd, principal }).list();
    return {
      tools: offers.map(({ name, description, inputSchema }) => ({
        name,
        description,
        input_schema: inputSchema,
        tokens: toolTokens({ name, description, input_schema: inputSchema }),
      })),
    };
  });
}
