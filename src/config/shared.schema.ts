/**
 * Building blocks of configuration schemas: constructors that put the description first, and the parts that several of
 * them have (paths, environment variables, addresses, names, secrets by reference).
 *
 * Never imported at run time. Annotations are those of `setting.ts`.
 */
import { type Static, type TSchema, type TSchemaOptions, Type } from '../wire/schema.ts';
import type { SettingSchema } from './setting.ts';

export const KIB = 1024;
export const MIB = 1024 * KIB;

/** A description, or a description with annotations. */
type About = string | (Omit<SettingSchema, 'variants'> & { readonly description: string; readonly variants?: object });

const notes = (about: About): TSchemaOptions => (typeof about === 'string' ? { description: about } : { ...about });

export const optional = Type.Optional;

export const group = <Members extends Record<string, TSchema>>(about: About, members: Members) =>
  Type.Object(members, notes(about));

export const list = <Item extends TSchema>(about: About, item: Item) => Type.Array(item, notes(about));

export const choice = <const Word extends string>(about: About, words: readonly Word[]) =>
  Type.Unsafe<Word>({ enum: words, ...notes(about) });

/** Returns the schema of a path; relative ones start at the folder of the file, and the path is absolute once read. */
export const path = (description: string, example?: string, expected?: string) =>
  Type.String({ format: 'path', ...(expected && { expected }), description, ...(example && { example }) });

/** Returns the schema of a program by its name, or by a path that starts at the folder of the file. */
export const program = (description: string, example?: string) =>
  Type.String({ format: 'program', expected: 'a program', description, ...(example && { example }) });

export const variable = (description: string, example?: string) =>
  Type.String({
    pattern: '^[A-Za-z_]\\w*$',
    expected: 'the name of an environment variable',
    description,
    ...(example && { example }),
  });

export const integer = (description: string, [minimum, maximum]: readonly [number, number], fallback?: number) =>
  Type.Integer({ default: fallback, minimum, maximum, description });

export const flag = (description: string, fallback: boolean) => Type.Boolean({ default: fallback, description });

/** Returns the schema of a text that the reader's messages describe by `expected`. */
export const text = (description: string, expected: string, example?: string) =>
  Type.String({ expected, description, ...(example && { example }) });

export const word = (description: string) => text(description, 'a word');

/** Returns the schema of the name of a worker, pool or sender. */
export const fleetName = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$',
    expected: 'a name of 1 to 128 letters, digits, ".", "_", ":", "@" or "-"',
    description,
  });

export const httpAddress = (description: string) =>
  Type.String({ pattern: '^https?:\\/\\/\\S+$', expected: 'an http address', description });

/** Returns the two settings that may name a bearer token. A group with these is `notBoth: TOKEN_PLACES`. */
export const tokenFields = (whose: string) => ({
  token_env: optional(variable(`The variable with ${whose}.`, 'FLEET_TOKEN')),
  token_file: optional(path('Or the file with it, read whenever it is used.', './fleet.token')),
});

export const TOKEN_PLACES = ['token_env', 'token_file'] as const;

/** Values of any shape, for a part that checks them itself. */
export const anything = (description: string) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', description });

/** Returns the schema of a map whose keys the user chooses. */
export const mapOf = <Item extends TSchema>(
  item: Item,
  key: { readonly pattern: string; readonly expected: string },
  annotations: { readonly description: string; readonly example?: string },
) =>
  Type.Unsafe<Record<string, Static<Item>>>({
    type: 'object',
    propertyNames: key,
    additionalProperties: item,
    ...annotations,
  });

/** Returns the schema of environment variables or headers: a text for each name. */
export const texts = (description: string) =>
  mapOf(
    text('Its value.', 'a text'),
    { pattern: '^[A-Za-z_][\\w-]*$', expected: 'the name of a variable or header' },
    { description },
  );

/** Setting of an address that speaks HTTP. */
export const trustedProxies = list(
  {
    default: [],
    description:
      'Proxies in front of it. Only what they say in Forwarded or X-Forwarded-For is believed: wrong tokens are counted, and connections logged, by the address of the client they name.',
    example: '["127.0.0.1", "10.0.0.0/8"]',
  },
  Type.String({ format: 'network', description: 'An IP address, or a network such as 10.0.0.0/8.' }),
);

export const toolPattern = Type.String({
  pattern: '^[\\w.*-]{1,128}$',
  expected: 'a tool name, with * for any letters',
  description: 'A tool name; * stands for any letters.',
});

export const risk = choice('A risk of a tool: the effect it can have on the world.', [
  'reads',
  'writes',
  'destructive',
  'network',
  'exec',
]);

/** Capabilities and tools that may be used: by a role, by a token, and in the environment that a worker lends. */
export const useFields = {
  capabilities: optional(
    list(
      'Capabilities it may negotiate. [*]: all that are loaded.',
      Type.String({ format: 'capability', description: 'A capability of the protocol or of a package, or *.' }),
    ),
  ),
  tools: optional(
    group(
      'Which tools it may call. Deny wins; with an allow list, only what it names. Tools that run programs, destroy or use the network need their risk or their exact name.',
      {
        allow: optional(list('Only these tools.', toolPattern)),
        deny: optional(list('Never these tools.', toolPattern)),
        deny_risks: optional(list('No tool that carries one of these flags.', risk)),
        risks: optional(
          list('Tools with these flags too.', choice('A guarded risk.', ['exec', 'destructive', 'network'])),
        ),
      },
    ),
  ),
  grants: optional(
    anything(
      'Further rights by capability: what each key holds is checked by that capability. A grant also allows the capability.',
    ),
  ),
};
