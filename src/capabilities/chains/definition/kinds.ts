/** What a node of a chain can be. A2E 1.0 has tool, skill, proc, branch and map. Read by the schemas and by `read.ts`. */
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
