/**
 * Cases of the capabilities that call other services: chains, mcp, multi_agent.
 */
import { expect } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import { casesOf } from './context.ts';

const CHAINS = 'chains: chain/*';
const MCP = 'mcp: mcp/*';
const AGENTS = 'multi_agent: multi_agent/*';

const UNKNOWN = 'conformance-unknown-id';

/** Returns a node that only decides: nothing is called. */
const branch = (node_id: string, next: Fields = {}): Fields => ({
  node_id,
  kind: 'branch',
  condition: '$.yes',
  ...next,
});

/** Returns the failure in both forms of a failed chain; `code` is the code of the reply or of its error. */
const failureOf = (answer: Fields): { failed: boolean; code: unknown } =>
  answer.type === 'error'
    ? { failed: true, code: answer.code }
    : { failed: answer.success === false, code: (answer.error as Fields | null | undefined)?.code };

export const chainCases = casesOf([
  [
    'A2E-CH-001',
    'MUST',
    CHAINS,
    'a chain whose nodes lead back to themselves fails with chain_cycle',
    async (context) => {
      const connection = await context.granted('chains');
      const nodes = [
        branch('a', { true_node: 'b', false_node: 'b' }),
        branch('b', { true_node: 'a', false_node: 'a' }),
      ];
      const answer = await connection.request('chain/req', { nodes, entry_node: 'a', initial_input: { yes: true } });
      const { failed, code } = failureOf(answer);
      expect(failed && code === 'chain_cycle', 'a failure with code chain_cycle', answer);
    },
  ],
  [
    'A2E-CH-002',
    'MUST',
    CHAINS,
    'an unknown entry node fails',
    async (context) => {
      const connection = await context.granted('chains');
      const answer = await connection.request('chain/req', { nodes: [branch('a')], entry_node: UNKNOWN });
      expect(failureOf(answer).failed, 'success false, or error', answer);
    },
  ],
  [
    'A2E-CH-003',
    'MUST',
    CHAINS,
    'a node that calls an unknown tool fails the chain, and its error names a code',
    async (context) => {
      const connection = await context.granted('chains');
      const nodes = [{ node_id: 'a', kind: 'tool', name: UNKNOWN, input: {} }];
      const answer = await connection.request('chain/req', { nodes, entry_node: 'a' });
      const { failed, code } = failureOf(answer);
      expect(failed && typeof code === 'string' && code !== '', 'a failure with a code', answer);
    },
  ],
  [
    'A2E-CH-004',
    'MUST',
    CHAINS,
    'a chain of one tool has its output under the id of the node and as final_output',
    async (context) => {
      const { name, arguments: input } = context.tool();
      const connection = await context.granted('chains');
      const nodes = [{ node_id: 'only', kind: 'tool', name, input }];
      const answer = await connection.result('chain/req', { nodes, entry_node: 'only' }, 'chain/resp');
      expect(answer.success === true && answer.nodes_run === 1, 'success true, nodes_run 1', answer);
      const output = (answer.outputs as Fields | undefined)?.only;
      expect(JSON.stringify(output) === JSON.stringify(answer.final_output), 'final_output of the node', answer);
    },
  ],
  [
    'A2E-CH-005',
    'MUST',
    CHAINS,
    'the events of a chain come before its answer: start, then done, of each node',
    async (context) => {
      const { name, arguments: input } = context.tool();
      const connection = await context.granted('chains');
      const nodes = [{ node_id: 'only', kind: 'tool', name, input }];
      const id = connection.send('chain/req', { nodes, entry_node: 'only', streaming: true });
      await connection.answer(id);
      const phases = connection.events(id).map(({ node_id, phase }) => `${node_id} ${phase}`);
      expect(phases.join() === 'only start,only done', 'only start, only done', phases);
    },
  ],
]);

export const mcpCases = casesOf([
  ...(
    [
      ['A2E-MC-001', 'mcp/server/list', 'servers'],
      ['A2E-MC-002', 'mcp/resource/list', 'resources'],
      ['A2E-MC-003', 'mcp/prompt/list', 'prompts'],
    ] as const
  ).map(
    ([id, stem, member]) =>
      [
        id,
        'MUST',
        MCP,
        `${stem}/req is answered by ${stem}/resp with ${member}`,
        async (context: Parameters<(typeof chainCases)[number]['run']>[0]) => {
          const connection = await context.granted('mcp');
          const answer = await connection.result(`${stem}/req`, {}, `${stem}/resp`);
          expect(Array.isArray(answer[member]), `${member} as a list`, answer);
        },
      ] as const,
  ),
  [
    'A2E-MC-004',
    'MUST',
    MCP,
    'removing an unknown server is refused',
    async (context) => {
      const connection = await context.granted('mcp');
      const answer = await connection.request('mcp/server/unregister/req', { server_id: UNKNOWN });
      if (answer.type !== 'error') expect(answer.ok === false, 'ok false', answer);
    },
  ],
  [
    'A2E-MC-005',
    'MUST',
    MCP,
    'reading an unknown resource and getting an unknown prompt fail',
    async (context) => {
      const connection = await context.granted('mcp');
      for (const [type, body] of [
        ['mcp/resource/read/req', { uri: `conformance://${UNKNOWN}` }],
        ['mcp/prompt/get/req', { name: UNKNOWN }],
      ] as const) {
        const answer = await connection.request(type, body);
        if (answer.type !== 'error') expect(typeof answer.error === 'string' && answer.error !== '', 'error', answer);
      }
    },
  ],
]);

export const agentCases = casesOf([
  [
    'A2E-MA-001',
    'MUST',
    AGENTS,
    'multi_agent/list is answered by its response with subagents',
    async (context) => {
      const connection = await context.granted('multi_agent');
      const answer = await connection.result('multi_agent/list', {}, 'multi_agent/list/resp');
      expect(Array.isArray(answer.subagents), 'subagents as a list', answer);
    },
  ],
  [
    'A2E-MA-002',
    'MUST',
    AGENTS,
    'awaiting an unknown subagent is answered at once, with an error',
    async (context) => {
      const connection = await context.granted('multi_agent');
      const answer = await connection.request('multi_agent/await', { subagent_id: UNKNOWN });
      if (answer.type !== 'error') expect(typeof answer.error === 'string' && answer.error !== '', 'error', answer);
    },
  ],
  [
    'A2E-MA-003',
    'MUST',
    AGENTS,
    'ending an unknown subagent and giving it work are refused',
    async (context) => {
      const connection = await context.granted('multi_agent');
      const ended = await connection.request('multi_agent/terminate', { subagent_id: UNKNOWN });
      if (ended.type !== 'error') expect(ended.success === false, 'success false', ended);
      const work = { subagent_id: UNKNOWN, task_name: 'conformance', instruction: 'none' };
      const given = await connection.request('multi_agent/delegate', work);
      if (given.type !== 'error') expect(given.accepted === false, 'accepted false', given);
    },
  ],
]);
