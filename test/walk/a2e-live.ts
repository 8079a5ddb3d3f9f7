/** Makes, over the wire and before the walk, the objects on a host that requests of each capability name. */
import { fileURLToPath } from 'node:url';
import { isObject } from '../../src/wire/json.ts';
import type { Known } from './largest.ts';
import type { Message, PlainAgent } from './plain-agent.ts';
import type { WalkedFiles } from './walk.ts';

const support = (name: string): string => fileURLToPath(new URL(`../support/${name}`, import.meta.url));
const mcpServer = fileURLToPath(new URL('./notes-server.mjs', import.meta.url));

const SKILL = `---
name: shout
description: Says what it is given
entry: main.js
---
Say it.
`;

/** Plugins and their files. */
export const walkedCapabilities: WalkedFiles = {
  yaml: `plugins:
  - tools
  - chains
  - env
  - learning
  - memory
  - planning
  - toolkits
  - { use: skill, options: { roots: [./skills] } }
  - use: mcp
    options:
      servers:
        - { name: notes, command: ${JSON.stringify(process.execPath)}, args: [${JSON.stringify(mcpServer)}] }
  - { use: proc, options: { programs: [cat, node] } }
  - use: multi_agent
    options:
      kinds:
        - { name: echo, about: Says what it was told, command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(support('echo-subagent.mjs'))}], capabilities: [tools] }
`,
  files: {
    'one.txt': 'one\ntwo\nthree\n',
    '../skills/shout/SKILL.md': SKILL,
    '../skills/shout/main.js': 'export default (args) => args;\n',
  },
};

/** Returns the member at a path of a reply, or fails with a message that shows the reply. */
function found(reply: Message, ...path: readonly string[]): unknown {
  let value: unknown = reply;
  for (const step of path) value = isObject(value) ? value[step] : undefined;
  if (value === undefined || value === '')
    throw new Error(`no ${path.join('.')} in ${JSON.stringify(reply).slice(0, 500)}`);
  return value;
}

const chain = {
  nodes: [{ node_id: 'read', kind: 'tool', name: 'read_file', input: { path: 'one.txt' } }],
  entry_node: 'read',
};

/** Values that requests name, by member or by `type:member`. */
export async function liveValues(agent: PlainAgent): Promise<Known> {
  const ask = (type: string, fields: object = {}): Promise<Message> => agent.ask({ type, ...fields }, 30_000);
  const plan_id = found(await ask('planning/plan/create', { name: 'walked' }), 'plan_id');
  const task_id = found(await ask('planning/task/add', { plan_id, title: 'first' }), 'task_id');
  const memory_id = found(await ask('memory/init/req', { namespace: 'walked' }), 'memory_id');
  const key = { topic: 'walk' };
  await ask('memory/store/req', { memory_id, entries: [{ key, content: { note: 'here' } }] });
  const episode = await ask('env/reset/req', { env_name: 'CartPole-v1', seed: 1 });
  const episode_id = found(episode, 'obs', 'episode_id');
  const proc_id = found(await ask('proc/spawn/req', { cmd: ['cat'], stdin_mode: 'pipe' }), 'proc_id');
  const subagent_id = found(await ask('multi_agent/spawn', { name: 'one', kind: 'echo' }), 'subagent_id');
  const upper = found(await ask('SUBAGENT_SPAWN_REQ', { agent: { name: 'two', model: '' } }), 'subagent_id');
  await ask('multi_agent/channel/req', { channel: 'talk', members: [subagent_id] });
  await ask('chain/put/req', { name: 'stored', ...chain });
  const chain_id = found(await ask('chain/req', { chain_id: 'walked', ...chain }), 'chain_id');
  await ask('learn/experience/req', {
    experiences: [{ experience_id: 'e1', state: {}, action: { component_name: 'inc', input: {} }, reward: 1 }],
  });
  return {
    plan_id,
    memory_id,
    episode_id,
    proc_id,
    subagent_id,
    'planning/task/update:task_id': task_id,
    'planning/task/show/req:task_id': task_id,
    'planning/task/comment/req:task_id': task_id,
    'planning/task/archive/req:task_id': 'none',
    'SUBAGENT_DELEGATE_REQ:subagent_id': upper,
    'SUBAGENT_AWAIT_REQ:subagent_id': upper,
    'planning/plan/archive/req:plan_id': 'none',
    'planning/plan/delete/req:plan_id': 'none',
    'multi_agent/terminate:subagent_id': 'none',
    'SUBAGENT_TERMINATE_REQ:subagent_id': 'none',
    channel: 'talk',
    chain_id: 'none',
    'chain/req:nodes': chain.nodes,
    'chain/req:entry_node': chain.entry_node,
    'chain/check/req:nodes': chain.nodes,
    'chain/check/req:entry_node': chain.entry_node,
    'chain/put/req:nodes': chain.nodes,
    'chain/put/req:entry_node': chain.entry_node,
    'chain/status/req:chain_id': chain_id,
    'chain/history/req:chain_id': chain_id,
    'chain/req:chain_id': undefined,
    'tool/call/req:tool_name': 'read_file',
    'tool/call/req:arguments': { path: 'one.txt' },
    env_name: 'CartPole-v1',
    'env/reset/req:seed': 1,
    'env/close/req:episode_id': 'none',
    'env/step/req:action': { action_type: 'step', payload: { action: 1 } },
    'env/contains/req:space': { type: 'Discrete', n: 2 },
    'env/contains/req:value': 1,
    'env/sample/req:space': { type: 'Discrete', n: 2 },
    'learn/evaluate/req:option': 'x',
    server_id: 'notes',
    'mcp/server/unregister/req:server_id': 'none',
    'mcp/server/register/req:server_id': 'other',
    'mcp/server/register/req:cmd': ['node', '-e', '0'],
    'mcp/prompt/get/req:name': 'ask',
    'mcp/resource/read/req:uri': 'note://one',
    toolkit_name: 'filesystem',
    'skill/call/req:name': 'shout',
    'skill/describe/req:name': 'shout',
    'skill/call/req:arguments': {},
    'memory/retrieve/req:keys': [key],
    wait_ms: 1,
    wait_seconds: 0.01,
    timeout: 5,
    timeout_seconds: 1,
    cmd: ['cat'],
    component_name: 'inc',
    strategy: undefined,
  };
}
