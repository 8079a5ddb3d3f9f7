/**
 * `handfast/testing`: for tests of plugins, tools and agents, without a process or a socket.
 *
 * `connect(host)` already talks to a host of the same process; the pair is for tests that want both ends of a link.
 */

export type { CloseInfo, Link, LinkReceiver, Malformed, Message } from './transport/link.ts';
export { memoryPair } from './transport/memory.ts';
