/** `handfast toolkits …`: the toolkits of a host, for the session of an agent, and their tools. */
import { counted } from '../../base/counted.ts';
import type { CapabilityCommand } from '../../packages/capability.ts';
import { typedObject } from '../../packages/command-values.ts';
import { type ToolkitInfo, ToolkitsClient } from './client.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

const clientOf = ({ agent }: Context): ToolkitsClient => new ToolkitsClient(agent);

function optionsOf({ options, signal }: Context) {
  return { signal, ...(options.session !== undefined && { session: options.session as string }) };
}

const first = ({ args: [given] }: Context): string => String(given ?? '');

/** Reads a JSON object. Fails with `usage` for any other text. */
function objectOf(text: string): Readonly<Record<string, unknown>> {
  return typedObject(text, `the configuration must be a JSON object, e.g. '{"root": "src"}'`);
}

const stateOf = ({ enabled, deferred, configured }: ToolkitInfo): string =>
  [enabled ? 'enabled' : 'off', configured ? 'configured' : '', deferred ? 'deferred' : '']
    .filter((word) => word !== '')
    .join(', ');

function print({ terminal }: Context, toolkit: ToolkitInfo): undefined {
  if (terminal.json) terminal.document(toolkit);
  else
    terminal.line(
      `${toolkit.name}: ${stateOf(toolkit)}; ${counted(toolkit.tools.length, 'tool')}, about ${toolkit.tokens} tokens`,
    );
}

async function ls(context: Context): Promise<undefined> {
  const { terminal } = context;
  const toolkits = await clientOf(context).list(optionsOf(context));
  if (terminal.json) terminal.document(toolkits);
  else if (toolkits.length === 0) terminal.note('no toolkits that this user may use');
  else {
    const rows = toolkits.map((each) => [
      each.name,
      stateOf(each),
      String(each.tools.length),
      String(each.tokens),
      each.description ?? '',
    ]);
    terminal.table(['TOOLKIT', 'STATE', 'TOOLS', 'TOKENS', 'ABOUT'], rows);
  }
}

async function show(context: Context): Promise<undefined> {
  const { terminal } = context;
  const described = await clientOf(context).describe(first(context), optionsOf(context));
  if (terminal.json) return terminal.document(described) as undefined;
  const { toolkit, definitions } = described;
  terminal.line(toolkit.description ?? '');
  print(context, toolkit);
  const schema = toolkit.schema ?? {};
  if (Object.keys(schema).length > 0) terminal.line(`configuration: ${JSON.stringify(schema.properties ?? schema)}`);
  terminal.table(
    ['TOOL', 'RISKS', 'ABOUT'],
    definitions.map(({ name, risks = [], description }) => [
      name,
      risks.join(', '),
      description.split('. ', 1)[0] ?? '',
    ]),
  );
}

async function configure(context: Context): Promise<undefined> {
  const [, given] = context.args;
  await clientOf(context).configure(first(context), objectOf(String(given ?? '{}')), optionsOf(context));
  return print(context, (await clientOf(context).describe(first(context), optionsOf(context))).toolkit);
}

async function enable(context: Context): Promise<undefined> {
  return print(context, await clientOf(context).enable(first(context), optionsOf(context)));
}

async function disable(context: Context): Promise<undefined> {
  return print(context, await clientOf(context).disable(first(context), optionsOf(context)));
}

async function search(context: Context): Promise<undefined> {
  const { terminal, signal, args } = context;
  const words = args.flatMap((arg) => arg ?? []).join(' ');
  const found = await clientOf(context).search(words, { signal, limit: 20, load: false });
  if (terminal.json) terminal.document(found);
  else if (found.tools.length === 0) terminal.note('no tool of an enabled toolkit fits');
  else {
    const rows = found.tools.map(({ name, toolkit, description }) => [
      name,
      toolkit ?? '',
      description.split('. ', 1)[0] ?? '',
    ]);
    terminal.table(['TOOL', 'TOOLKIT', 'ABOUT'], rows);
  }
}

const SESSION = [
  '--session <id>',
  'the session of an agent; default: that of this command, which ends with it',
] as const;

export const commands: readonly CapabilityCommand[] = [
  { usage: 'ls', about: 'the toolkits, their state, and what their tools cost a model', options: [SESSION], run: ls },
  { usage: 'show <toolkit>', about: 'a toolkit with its configuration and its tools', options: [SESSION], run: show },
  {
    usage: 'configure <toolkit> [config]',
    about: 'configure a toolkit, a JSON object, and enable it',
    options: [SESSION],
    run: configure,
  },
  { usage: 'enable <toolkit>', about: 'enable a toolkit', options: [SESSION], run: enable },
  { usage: 'disable <toolkit>', about: 'disable a toolkit', options: [SESSION], run: disable },
  {
    usage: 'search <words...>',
    about: 'find tools of the toolkits that are enabled',
    capabilities: ['tools'],
    run: search,
  },
];
