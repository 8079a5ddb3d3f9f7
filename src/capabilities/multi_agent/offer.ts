/** The part of the multi_agent plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';

/** The requests that A2E 1.0 does not have. */
const MESSAGES = [
  ...['kinds', 'cancel', 'merge', 'message', 'channel', 'say', 'history'],
  ...['task', 'progress', 'finish'],
].map((name) => `multi_agent/${name}/req`);

const names = (description: string) => ({
  type: 'array',
  items: { type: 'string', minLength: 1, maxLength: 256 },
  maxItems: 1_000,
  description,
});

const risks = (description: string) => ({
  type: 'array',
  items: { enum: ['reads', 'writes', 'destructive', 'network', 'exec'] },
  description,
});

/** @param options.kinds the grant contains their names: an agent sees whether it can make a subagent */
export const multiAgentOffer = ({
  kinds = [],
}: {
  readonly kinds?: readonly { readonly name: string }[] | undefined;
} = {}): PluginOffer => ({
  store: { opened: 'first-request' },
  grant: {
    type: 'object',
    properties: {
      delegate: {
        type: 'object',
        description: 'The rights of its subagents. Default: its own rights.',
        properties: {
          capabilities: names('Capabilities; * = all.'),
          tools: {
            type: 'object',
            properties: {
              allow: names('Only these tools.'),
              deny: names('Never these tools.'),
              deny_risks: risks('No tool that carries one of these flags.'),
              risks: risks('Tools with these flags too.'),
            },
            additionalProperties: false,
          },
          grants: { type: 'object', description: 'Further rights by capability.' },
        },
        additionalProperties: false,
      },
      kinds: names('Kinds it may make; * stands for any letters. Default all.'),
      max_subagents: { type: 'integer', minimum: 0, description: 'Open subagents, with those below them.' },
      max_depth: { type: 'integer', minimum: 0, description: 'Subagents of subagents.' },
      max_tokens: { type: 'number', minimum: 0, description: 'Tokens of all its subagents.' },
      max_cost_usd: { type: 'number', minimum: 0, description: 'Cost of all its subagents.' },
    },
    additionalProperties: false,
  },
  metadata: { messages: MESSAGES, kinds: kinds.map(({ name }) => name) },
});
