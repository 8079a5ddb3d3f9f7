/**
 * The limits of one message of a server, and the errors in place of a response beyond them, so that its caller does not
 * wait.
 */

import { MAX_DEPTH, MAX_REPLY_VALUES } from '../wire/depth.ts';

/** Longest message of a server, in characters on pipes and in bytes over HTTP: a result may hold a picture. */
export const MAX_MESSAGE = 16 * 1024 * 1024;

/** The unit of an exceeded limit; values as `wire/depth.ts` counts them. */
export type TooMany = 'bytes' | 'characters' | 'values';

/** Returns an error for the request whose response is too long. */
export const tooLong = (id: string | number, unit: TooMany) => ({
  jsonrpc: '2.0' as const,
  id,
  error: {
    code: -32_603,
    message: `the response has more than ${unit === 'values' ? MAX_REPLY_VALUES : MAX_MESSAGE} ${unit}`,
  },
});

/** Returns an error for the request whose response is nested too deeply to be checked and passed on. */
export const tooDeep = (id: unknown) => ({
  jsonrpc: '2.0' as const,
  id: id as string | number,
  error: { code: -32_603, message: `the response is nested more than ${MAX_DEPTH} levels deep` },
});
