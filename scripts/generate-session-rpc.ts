/**
 * Writes what follows from the method values of session RPC: the table of methods in `docs/protocol/session-rpc.md`
 * (between its marks) and `schema/session-rpc.json`, the JSON Schema of every method's parameters.
 *
 * Called by `scripts/generate.ts`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RpcMethod } from '../src/protocol/rpc-params.ts';
import { SESSION_RPC_VERSION, sessionRpcMethods } from '../src/protocol/session-rpc.ts';

const page = 'docs/protocol/session-rpc.md';

/** The methods of version 1.0.0; every other one is an addition. */
const ORIGINAL = new Set(
  `auth.connect.antigravity auth.connect.openai auth.set.exa_key auth.set.openrouter_key auth.status command.execute
  debug.set history.clear_session history.get history.list limits.get model.list model.openrouter.providers model.select
  onboarding.complete onboarding.status rpc.handshake session.create session.get session.interrupt session.queue.clear
  session.queue.list session.send session.steer skills.list state.get system.ping system.shutdown tools.list`.split(
    /\s+/,
  ),
);

const methods: readonly RpcMethod[] = (Object.values(sessionRpcMethods) as RpcMethod[]).sort((a, b) =>
  a.name < b.name ? -1 : 1,
);

/** The parameters of a method as a JSON Schema. Values are trimmed before they are looked at, which a schema cannot say. */
function schemaOf({ takes, fields, summary }: RpcMethod): object {
  if (takes === 'ignored') return { description: summary };
  const required = Object.entries(fields)
    .filter(([, param]) => param.required)
    .map(([name]) => name);
  return {
    description: summary,
    type: takes === 'optional' ? ['object', 'null'] : 'object',
    properties: Object.fromEntries(Object.entries(fields).map(([name, param]) => [name, param.schema])),
    ...(required.length > 0 && { required }),
  };
}

export function sessionRpcSchema(): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `Parameters of session RPC ${SESSION_RPC_VERSION}, by method`,
    $defs: Object.fromEntries(methods.map((method) => [method.name, schemaOf(method)])),
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** `session_id`, `text?`: a question mark where it may be left out. */
const parametersOf = ({ takes, fields }: RpcMethod): string =>
  takes === 'ignored'
    ? '–'
    : Object.entries(fields)
        .map(([name, { required }]) => `\`${name}${required ? '' : '?'}\``)
        .join(', ');

function table(chosen: readonly RpcMethod[]): string {
  const rows = chosen.map((method) => `| \`${method.name}\` | ${parametersOf(method)} | ${method.summary} |`);
  return ['| Method | Parameters | What it does |', '| --- | --- | --- |', ...rows].join('\n');
}

/** The page with fresh tables. Fails when its marks are gone. */
export function sessionRpcPage(root: string): string {
  let text = readFileSync(join(root, page), 'utf8');
  const tables = {
    original: table(methods.filter(({ name }) => ORIGINAL.has(name))),
    additions: table(methods.filter(({ name }) => !ORIGINAL.has(name))),
  };
  for (const [name, rows] of Object.entries(tables)) {
    const marked = new RegExp(`(<!-- methods ${name} -->\n)[^]*?(<!-- /methods ${name} -->)`);
    if (!marked.test(text)) throw new Error(`${page} has no marks for the table "${name}"`);
    text = text.replace(marked, (_, open: string, close: string) => `${open}\n${rows}\n\n${close}`);
  }
  return text;
}
