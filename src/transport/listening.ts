/** Starts servers of sockets and of HTTP, with one error for an address that cannot be bound. */
import type { Server } from 'node:net';
import { fail } from '../wire/errors.ts';

/**
 * Calls `listen` and waits until the server listens.
 *
 * @throws runtime_error when the address cannot be bound; `detail.reason` is the system's code, e.g. `EADDRINUSE`
 */
export function listening(server: Server, address: string, listen: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException): void => {
      server.removeListener('listening', bound);
      const inUse = error.code === 'EADDRINUSE';
      const why = inUse ? 'the address is already in use' : error.message;
      reject(fail('runtime_error', `cannot listen on ${address}: ${why}`, { address, reason: error.code }, error));
    };
    const bound = (): void => {
      server.removeListener('error', refused);
      // No known error is reported here once a server listens; an error without a listener would end the process.
      server.on('error', () => {});
      resolve();
    };
    server.once('error', refused);
    server.once('listening', bound);
    listen();
  });
}
