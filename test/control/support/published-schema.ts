/**
 * Checks of messages that a server sent, by the published schema of session RPC: results by their method, events by their type.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { root } from '../../rules/scan.ts';

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
ajv.addSchema(JSON.parse(readFileSync(join(root, 'schema', 'session-rpc.json'), 'utf8')), 'rpc');

/** Returns the reason why a value does not fit a definition; undefined when it does. */
function problem(definition: string, value: unknown): string | undefined {
  const check = ajv.getSchema(`rpc#/$defs/${definition}`);
  if (check === undefined) return `schema/session-rpc.json does not define ${definition}`;
  return check(value) ? undefined : `${definition}: ${ajv.errorsText(check.errors)} in ${JSON.stringify(value)}`;
}

/**
 * Returns the reason why a reply to `method` (undefined: not known), or an event, differs from the published form; undefined
 * when it fits.
 */
export function publishedProblem(method: unknown, message: Readonly<Record<string, unknown>>): string | undefined {
  if (message.method === 'event') {
    const { type, payload } = message.params as { readonly type: string; readonly payload: unknown };
    return problem(`event.${type}`, payload);
  }
  return method === undefined || message.result === undefined ? undefined : problem(`${method}.result`, message.result);
}
