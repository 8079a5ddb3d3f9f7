/** All A2E cases, in the order they run. */
import { bindingCases } from './bindings.ts';
import type { A2eCase } from './context.ts';
import { agentCases, chainCases, mcpCases } from './edges.ts';
import { exchangeCases, framingCases } from './framing.ts';
import { handshakeCases, negotiationCases } from './handshake.ts';
import { envCases, learningCases, memoryCases, planningCases, procCases } from './state.ts';
import { skillCases, toolCases, toolkitCases } from './tools.ts';

export const a2eCases: readonly A2eCase[] = [
  ...handshakeCases,
  ...negotiationCases,
  ...framingCases,
  ...exchangeCases,
  ...bindingCases,
  ...toolCases,
  ...toolkitCases,
  ...skillCases,
  ...envCases,
  ...procCases,
  ...memoryCases,
  ...learningCases,
  ...planningCases,
  ...chainCases,
  ...mcpCases,
  ...agentCases,
];
