/**
 * Finds a contender by name and loads only its file, so that no process carries the code of another contender.
 */
import { dirname } from 'node:path';
import type { Contender, TransportName } from './contender.ts';

/** The facts about a contender that the plan needs without loading it. */
export interface Entry {
  /** As filters and reports have it; with {@link BEFORE} for the build that this one is compared with. */
  readonly name: string;
  /** As {@link loadContender} has it. */
  readonly contender: string;
  /** Root of the checkout with the benchmark that measures it. */
  readonly checkout: string;
  readonly transports: readonly TransportName[];
  /** Workloads it takes part in on those transports; undefined = all. */
  readonly workloads?: readonly string[];
  /** Transports on which it cannot send events. */
  readonly withoutEvents?: readonly TransportName[];
  /** True for other people's packages, which Handfast is compared with. */
  readonly peer: boolean;
}

const UNARY = ['unary1', 'unary64'];
const VARIANT_WORKLOADS = [...UNARY, 'events'];

const listed: readonly Omit<Entry, 'contender' | 'checkout'>[] = [
  { name: 'bare', transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'], peer: false },
  {
    name: 'limit',
    transports: ['stdio', 'tcp', 'websocket'],
    // With one call at a time no messages can be joined: it would be `bare` again.
    workloads: ['unary64', 'small64', 'events'],
    peer: false,
  },
  { name: 'handfast', transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'], peer: false },
  { name: 'handfast+onevent', transports: ['memory', 'stdio', 'tcp', 'websocket'], workloads: ['events'], peer: false },
  { name: 'handfast+audit', transports: ['memory', 'tcp'], workloads: VARIANT_WORKLOADS, peer: false },
  { name: 'handfast+sqlite', transports: ['memory', 'tcp'], workloads: VARIANT_WORKLOADS, peer: false },
  {
    name: 'handfast+record',
    transports: ['tcp'],
    workloads: ['unary64', 'unary1', 'events', 'payload256k'],
    peer: false,
  },
  { name: 'handfast+memory', transports: ['memory', 'tcp'], workloads: UNARY, peer: false },
  { name: 'handfast+learning', transports: ['memory', 'tcp'], workloads: UNARY, peer: false },
  { name: 'handfast+planning', transports: ['memory', 'tcp'], workloads: UNARY, peer: false },
  { name: 'handfast+env', transports: ['memory', 'tcp'], workloads: UNARY, peer: false },
  { name: 'handfast-stdio', transports: ['stdio'], workloads: ['unary64', 'small64'], peer: false },
  { name: 'handfast-stdio-noaudit', transports: ['stdio'], workloads: ['unary64', 'small64'], peer: false },
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

const root = dirname(dirname(import.meta.dirname));

export const entries: readonly Entry[] = listed.map((entry) => ({ ...entry, contender: entry.name, checkout: root }));

/** Ends the name of a contender of the other build. */
export const BEFORE = '@before';

/** Returns the contenders of another checkout of Handfast, for a comparison of two builds in one run. */
export function entriesBefore(checkout: string): readonly Entry[] {
  return entries
    .filter(({ name }) => name.startsWith('handfast'))
    .map((entry) => ({ ...entry, name: `${entry.name}${BEFORE}`, checkout }));
}

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
    case 'handfast+record':
      return (await import('./handfast.ts')).withRecorder;
    case 'handfast+memory':
    case 'handfast+learning':
    case 'handfast+planning':
    case 'handfast+env':
      return (await import('./handfast-state.ts')).contenderOf(name.slice('handfast+'.length));
    case 'handfast-stdio':
      return (await import('./handfast-stdio.ts')).contender;
    case 'handfast-stdio-noaudit':
      return (await import('./handfast-stdio.ts')).withoutAudit;
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
