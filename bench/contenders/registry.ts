/**
 * Finds a contender by name and loads only its file, so that no process carries the code of another contender.
 */
import type { Contender, TransportName } from './contender.ts';

/** What the plan needs to know of a contender without loading it. */
export interface Entry {
  readonly name: string;
  readonly transports: readonly TransportName[];
  /** Workloads it takes part in on those transports; undefined = all. */
  readonly workloads?: readonly string[];
  /** Transports on which it cannot send events. */
  readonly withoutEvents?: readonly TransportName[];
  /** True for other people's packages, which Handfast is compared with. */
  readonly peer: boolean;
}

const VARIANT_WORKLOADS = ['unary1', 'unary64', 'events'];

export const entries: readonly Entry[] = [
  { name: 'bare', transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'], peer: false },
  {
    name: 'limit',
    transports: ['stdio', 'tcp', 'websocket'],
    // With one call at a time there is nothing to put together: it would be `bare` again.
    workloads: ['unary64', 'events'],
    peer: false,
  },
  { name: 'handfast', transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'], peer: false },
  { name: 'handfast+onevent', transports: ['memory', 'stdio', 'tcp', 'websocket'], workloads: ['events'], peer: false },
  { name: 'handfast+audit', transports: ['memory', 'tcp'], workloads: VARIANT_WORKLOADS, peer: false },
  { name: 'handfast+sqlite', transports: ['memory', 'tcp'], workloads: VARIANT_WORKLOADS, peer: false },
  { name: 'vscode-jsonrpc', transports: ['stdio', 'tcp'], peer: true },
  {
    name: 'json-rpc-2.0',
    transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
    withoutEvents: ['http'],
    peer: true,
  },
  { name: '@agentclientprotocol/sdk', transports: ['memory', 'stdio', 'tcp'], peer: true },
  { name: '@modelcontextprotocol/client', transports: ['memory', 'stdio', 'http'], peer: true },
  { name: 'capnweb', transports: ['memory', 'websocket'], peer: true },
];

/** Loads the contender of this name. */
export async function loadContender(name: string): Promise<Contender> {
  switch (name) {
    case 'bare':
      return (await import('./bare.ts')).contender;
    case 'limit':
      return (await import('./limit.ts')).contender;
    case 'handfast':
      return (await import('./handfast.ts')).contender;
    case 'handfast+onevent':
      return (await import('./handfast.ts')).withCallback;
    case 'handfast+audit':
      return (await import('./handfast.ts')).withAudit;
    case 'handfast+sqlite':
      return (await import('./handfast.ts')).withSqlite;
    case 'vscode-jsonrpc':
      return (await import('./vscode-jsonrpc.ts')).contender;
    case 'json-rpc-2.0':
      return (await import('./json-rpc-2.0.ts')).contender;
    case '@agentclientprotocol/sdk':
      return (await import('./acp.ts')).contender;
    case '@modelcontextprotocol/client':
      return (await import('./mcp.ts')).contender;
    case 'capnweb':
      return (await import('./capnweb.ts')).contender;
    default:
      throw new Error(`no contender is called ${JSON.stringify(name)}`);
  }
}
