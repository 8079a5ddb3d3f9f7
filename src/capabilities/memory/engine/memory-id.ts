/** The id of a memory: its owner and its name determine the id, so that it is known before the memory is opened. */
import { createHash } from 'node:crypto';
import { canonical } from '../key.ts';

/** Returns the name of a memory, beside its principal and its agent. */
export const memoryName = (namespace: string, scope: Readonly<Record<string, unknown>>): string =>
  canonical([namespace, scope]);

/** @param name of `memoryName` */
export function memoryIdOf(principal: string, agent: string, name: string): string {
  const digest = createHash('sha256')
    .update(canonical([principal, agent, name]))
    .digest('hex');
  return `mem-${digest.slice(0, 32)}`;
}
