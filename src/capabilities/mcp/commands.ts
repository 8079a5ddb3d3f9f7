/** `handfast mcp …`: the MCP servers of a host, their tools, calls of them, and changed definitions. */
import { counted } from '../../base/counted.ts';
import type { CapabilityCommand } from '../../packages/capability.ts';
import { jsonArguments } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { ToolsClient } from '../tools/client.ts';
import { McpClient, type ServerInfo } from './client.ts';
import { toolOfName } from './tool-name.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

const wordsOf = ({ args }: Context): string[] => args.flatMap((arg) => arg ?? []);

/** Explains the state of a server, in one cell. */
function noteOf({ error = '', tools_changed = [], retry_after_ms = 0 }: ServerInfo): string {
  const parts = [
    error,
    retry_after_ms > 0 ? `tried again in ${Math.ceil(retry_after_ms / 1000)} s` : '',
    tools_changed.length > 0 ? `changed, not accepted: ${tools_changed.join(', ')}` : '',
  ];
  return parts.filter((part) => part !== '').join('; ');
}

async function ls(context: Context): Promise<undefined> {
  const { agent, terminal, signal, options } = context;
  // A list of tools starts the servers.
  if (options.start === true) await new ToolsClient(agent).list({ kind: 'mcp' }, { signal });
  const servers = await new McpClient(agent).servers({ signal });
  if (terminal.json) terminal.document(servers);
  else if (servers.length === 0) terminal.note('no MCP servers: name them under plugins: use: mcp in handfast.yaml');
  else {
    const rows = servers.map((server) => {
      const { server_id, transport, health = server.status ?? '', tools_count = 0 } = server;
      return [server_id, transport, health, health === 'ready' ? String(tools_count) : '', noteOf(server)];
    });
    terminal.table(['SERVER', 'TRANSPORT', 'HEALTH', 'TOOLS', ''], rows);
  }
}

async function tools(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server] = wordsOf(context);
  const tags = server === undefined ? ['mcp'] : ['mcp', server];
  const tagged = await new ToolsClient(agent).list({ tags, includeDeferred: true }, { signal });
  // The label of another server may be the name of this one.
  const found = server === undefined ? tagged : tagged.filter(({ name }) => toolOfName(name)?.server === server);
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no tools; "handfast mcp ls" shows how the servers are');
  else {
    const rows = found.map(({ name, description, risks }) => [
      name,
      (risks ?? []).join(', '),
      description.split('\n', 1)[0] ?? '',
    ]);
    terminal.table(['TOOL', 'RISKS', 'ABOUT'], rows);
  }
}

async function call(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server = '', tool = '', given] = wordsOf(context);
  const calling = new McpClient(agent).call<{ readonly content?: readonly Readonly<Record<string, unknown>>[] }>(
    server,
    tool,
    jsonArguments(given, '{"text": "hello"}'),
    { signal },
  );
  for await (const { kind, data } of calling) {
    if (kind === 'progress' && !terminal.json)
      terminal.note(`${String(data.pct)} % ${String(data.message ?? '')}`.trim());
  }
  const { data } = await calling;
  if (terminal.json) terminal.document(data);
  else if (data?.content === undefined) terminal.line(JSON.stringify(data, null, 2));
  else for (const part of data.content) terminal.line(part.type === 'text' ? String(part.text) : JSON.stringify(part));
}

async function accept(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server = '', ...named] = wordsOf(context);
  const accepted = await new McpClient(agent).accept(server, named, { signal });
  if (terminal.json) terminal.document(accepted);
  else terminal.line(accepted.length === 0 ? 'nothing has changed' : `accepted: ${accepted.join(', ')}`);
}

async function logs(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [wanted = ''] = wordsOf(context);
  const server = (await new McpClient(agent).servers({ signal })).find(({ server_id }) => server_id === wanted);
  if (server === undefined) {
    throw fail('not_found', `there is no MCP server ${JSON.stringify(wanted)}; "handfast mcp ls" lists them`);
  }
  const { stderr } = server;
  if (stderr === undefined) throw fail('unauthorized', 'only administrators see the output of a server');
  if (terminal.json) terminal.document(stderr);
  else if (stderr.length === 0) terminal.note('nothing on its standard error');
  else for (const line of stderr) terminal.line(line);
}

async function resources(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server = ''] = wordsOf(context);
  const found = await new McpClient(agent).resources(server, { signal });
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no resources; "handfast mcp ls" shows how the servers are');
  else {
    const rows = found.map(({ uri, name = '', mime_type = '', server_id = '' }) => [uri, server_id, mime_type, name]);
    terminal.table(['RESOURCE', 'SERVER', 'TYPE', ''], rows);
  }
}

async function read(context: Context): Promise<undefined> {
  const { agent, terminal, signal, options } = context;
  const [uri = ''] = wordsOf(context);
  const parts = await new McpClient(agent).read(uri, options.server as string | undefined, { signal });
  if (terminal.json) return terminal.document(parts) as undefined;
  for (const { text = '', blob = '', mime_type = '' } of parts) {
    if (blob === '') terminal.line(text);
    else
      terminal.note(
        `${counted(Buffer.byteLength(blob, 'base64'), 'byte')} of ${mime_type}; --json prints them in base64`,
      );
  }
}

async function prompts(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server = ''] = wordsOf(context);
  const found = await new McpClient(agent).prompts(server, { signal });
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no prompts; "handfast mcp ls" shows how the servers are');
  else {
    const names = (args: readonly Readonly<Record<string, unknown>>[] = []) =>
      args.map(({ name }) => String(name)).join(', ');
    const rows = found.map((each) => [each.name, each.server_id ?? '', names(each.arguments), each.description ?? '']);
    terminal.table(['PROMPT', 'SERVER', 'ARGUMENTS', 'ABOUT'], rows);
  }
}

async function prompt(context: Context): Promise<undefined> {
  const { agent, terminal, signal, options } = context;
  const [name = '', given] = wordsOf(context);
  const args = jsonArguments(given, '{"text": "hello"}') as Readonly<Record<string, string>>;
  const lines = await new McpClient(agent).prompt(name, args, options.server as string | undefined, { signal });
  if (terminal.json) return terminal.document(lines) as undefined;
  for (const { role, content } of lines) {
    terminal.line(`${role}: ${content.type === 'text' ? String(content.text) : JSON.stringify(content)}`);
  }
}

async function templates(context: Context): Promise<undefined> {
  const { agent, terminal, signal } = context;
  const [server = ''] = wordsOf(context);
  const found = await new McpClient(agent).templates(server, { signal });
  if (terminal.json) terminal.document(found);
  else if (found.length === 0) terminal.note('no templates of resources; "handfast mcp ls" shows how the servers are');
  else {
    const rows = found.map(({ uri_template, name = '', mime_type = '', server_id = '' }) => [
      uri_template,
      server_id,
      mime_type,
      name,
    ]);
    terminal.table(['TEMPLATE', 'SERVER', 'TYPE', ''], rows);
  }
}

async function complete(context: Context): Promise<undefined> {
  const { agent, terminal, signal, options } = context;
  const [what = '', argument = '', value = '', given] = wordsOf(context);
  const of = /[{:]/.test(what) ? { uriTemplate: what } : { prompt: what };
  const others = jsonArguments(given, '{"text": "hello"}') as Readonly<Record<string, string>>;
  const server = options.server as string | undefined;
  const asked = { of, argument, value, others, ...(server !== undefined && { server }) };
  const { values } = await new McpClient(agent).complete(asked, { signal });
  if (terminal.json) terminal.document(values);
  else if (values.length === 0) terminal.note('the server has nothing to complete it with');
  else for (const each of values) terminal.line(each);
}

const SERVER = ['--server <name>', 'the server; default: the one that lists it'] as const;

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'ls',
    about: 'MCP servers and how they are',
    options: [['--start', 'start those that were not needed yet']],
    capabilities: ['tools'],
    run: ls,
  },
  { usage: 'tools [server]', about: 'their tools; starts the servers', capabilities: ['tools'], run: tools },
  {
    usage: 'call <server> <tool> [arguments]',
    about: 'call a tool; the arguments are a JSON object',
    capabilities: ['tools'],
    run: call,
  },
  { usage: 'resources [server]', about: 'their resources; starts the servers', run: resources },
  { usage: 'templates [server]', about: 'their templates of resources; starts the servers', run: templates },
  { usage: 'read <uri>', about: 'read a resource', options: [SERVER], run: read },
  { usage: 'prompts [server]', about: 'their prompts; starts the servers', run: prompts },
  {
    usage: 'prompt <name> [arguments]',
    about: 'a prompt with its arguments, a JSON object',
    options: [SERVER],
    run: prompt,
  },
  {
    usage: 'complete <what> <argument> [value] [others]',
    about: 'what an argument of a prompt, or a variable of a template, may become; others are a JSON object',
    options: [SERVER],
    run: complete,
  },
  { usage: 'accept <server> [tools...]', about: 'accept changed definitions of its tools', run: accept },
  { usage: 'logs <server>', about: 'the last lines of its standard error', run: logs },
];
