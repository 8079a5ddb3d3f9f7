/**
 * The refusal of JSON-RPC on listeners that serve no session RPC: a client of that protocol gets an error it can read,
 * instead of an A2E message or silence. The host puts it after all dialects that it serves.
 */
import type { Dialect } from '../connection/accept.ts';
import { speaksJsonRpc } from '../wire/jsonrpc.ts';

export const jsonRpcNotServed: Dialect = {
  speaks: speaksJsonRpc,
  onMessage(message, gate) {
    const id = typeof message.id === 'string' || typeof message.id === 'number' ? message.id : null;
    const error = { code: -32601, message: 'session RPC is not served here', data: { reason: 'dialect_not_served' } };
    if (gate.link.text) gate.link.send(JSON.stringify({ jsonrpc: '2.0', id, error }));
    gate.refuse('dialect_not_served');
  },
  malformed(_error, gate) {
    gate.refuse('malformed');
  },
};
