/**
 * Skills of a host for MCP clients: each is a prompt that gives its instructions, with its files if it has no code;
 * skills with code are tools too.
 */
import type { SkillClient } from '../capabilities/skill/client.ts';
import type { CallOptions } from '../connection/call.ts';
import { isObject } from '../wire/json.ts';
import type { Params } from './protocol.ts';

/** A skill as it is listed. */
export type HostSkill = Awaited<ReturnType<SkillClient['list']>>[number];

const PREFIX = 'skill__';

/** Returns the name of its tool and of its prompt. */
export const skillToolName = (name: string): string => `${PREFIX}${name}`;
/** Returns the skill that a name of a prompt means. */
export const skillOfPrompt = (name: string): string | undefined =>
  name.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined;

/** Returns true for a skill that a call runs. */
export const isRun = ({ metadata }: HostSkill): boolean => metadata?.runs === true;

/** Returns the usable skills; none if the host cannot list them now. */
export async function skillsOf(client: SkillClient | undefined, options: CallOptions = {}): Promise<HostSkill[]> {
  if (client === undefined) return [];
  const listed = await Promise.resolve(client.list({}, options)).catch(() => []);
  return listed.filter(({ status }) => status === 'Published');
}

/** Returns a skill as a prompt. */
export function promptOfSkill(skill: HostSkill): object {
  const { name, description, input_schema: schema } = skill;
  const properties = !isRun(skill) && isObject(schema?.properties) ? schema.properties : {};
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const args = Object.entries(properties).map(([argument, about]) => ({
    name: argument,
    ...(isObject(about) && typeof about.description === 'string' && { description: about.description }),
    required: required.includes(argument),
  }));
  return { name: skillToolName(name), description, ...(args.length > 0 && { arguments: args }) };
}

/** Returns the messages of the prompt of a skill. Rejects with `unknown_skill`, `schema_violation`. */
export async function messagesOfSkill(
  client: SkillClient,
  name: string,
  args: Params,
  options: CallOptions,
): Promise<object[]> {
  const { skill, entry } = await client.describe(name, options);
  if (entry !== null) return [said({ type: 'text', text: skill.instructions ?? '' })];
  const typed = Object.fromEntries(
    Object.entries(args).map(([key, value]) => [key, typedValue(skill.input_schema, key, value)]),
  );
  const { data } = await client.call<{ instructions: string; resources: { path: string; text: string }[] }>(
    name,
    typed,
    options,
  );
  const { instructions = '', resources = [] } = data ?? {};
  const given = Object.keys(typed).length === 0 ? '' : `\n\nArguments: ${JSON.stringify(typed)}`;
  return [
    said({ type: 'text', text: `${instructions}${given}` }),
    ...resources.map(({ path, text }) =>
      said({ type: 'resource', resource: { uri: `skill://${name}/${encodeURI(path)}`, mimeType: 'text/plain', text } }),
    ),
  ];
}

const said = (content: object): object => ({ role: 'user', content });

/** Arguments of prompts are texts; a schema may want another kind. */
function typedValue(schema: unknown, key: string, value: unknown): unknown {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  const { type } = isObject(properties[key]) ? properties[key] : {};
  if (typeof value !== 'string' || type === undefined || type === 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
