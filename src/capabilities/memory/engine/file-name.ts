/** Names the file of a memory by the owner of its entries. */
import { createHash } from 'node:crypto';

/** The owner of the shared spaces. No principal has an empty name. */
export const SPACES = '';

/** Returns the file name for the name of a principal, which may have any characters. */
export const fileOf = (owner: string): string =>
  owner === SPACES ? 'spaces.db' : `${createHash('sha256').update(owner).digest('hex').slice(0, 32)}.db`;
