/**
 * `handfast/control`: a client of session RPC for programs and pages.
 *
 * @example
 * import * as control from 'handfast/control';
 *
 * await using client = await control.connect('ws://127.0.0.1:4700/rpc', { token });
 * const session = await client.create({ title: 'first steps' });
 * for await (const event of await session.prompt('read README.md and count its lines')) console.log(event.type);
 */

import './base/node-version.ts';

export { type ConnectOptions, connect, type InProcessServer } from './control-client/connect.ts';
export * from './control-client/exports.ts';
