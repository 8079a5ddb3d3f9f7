/** The kinds of nodes of a chain. A2E 1.0 has tool, skill, proc, branch and map. */
export const NODE_KINDS = [
  'tool',
  'skill',
  'proc',
  'mcp',
  'memory',
  'agent',
  'task',
  'branch',
  'map',
  'gather',
  'reduce',
  'wait',
] as const;

export type NodeKind = (typeof NODE_KINDS)[number];

/** The operations of a memory node. */
export const MEMORY_OPERATIONS = ['store', 'retrieve', 'forget'] as const;

export const isMemoryOperation = (name: string): name is (typeof MEMORY_OPERATIONS)[number] =>
  (MEMORY_OPERATIONS as readonly string[]).includes(name);
