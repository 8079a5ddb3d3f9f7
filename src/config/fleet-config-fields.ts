/**
 * Fields that several parts of the fleet's configuration are made of: names, paths, addresses, and secrets by reference.
 *
 * Used by the `fleet-config-*.ts` beside it.
 */
import { type Field, group, type JsonSchema, mapOf, text } from './config-fields.ts';
import type { OpenedConfig } from './config-reading.ts';

/** Where checks that span several settings report to. */
export type Problems = Pick<OpenedConfig<unknown>, 'problem'>['problem'];

/** A name in the fleet. */
export const name = (about: string) =>
  text(about, {
    required: true,
    pattern: /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/,
    expected: 'a name of 1 to 128 letters, digits, ".", "_", ":", "@" or "-"',
  });

/** A text that must be there. */
export const word = (about: string) => text(about, { required: true, expected: 'a word' });

/** The name of an environment variable. */
export const variable = (about: string, example: string) =>
  text(about, { pattern: /^[A-Za-z_]\w*$/, expected: 'the name of an environment variable', example: [example] });

/** A path; relative ones start at the folder of the file. */
export const path = (about: string, example: string) => text(about, { expected: 'a path', example: [example] });

const HTTP_ADDRESS = { pattern: /^https?:\/\/\S+$/, expected: 'an http address' };

/** An HTTP address that may be left out. */
export const httpAddress = (about: string) => text(about, HTTP_ADDRESS);

/** An HTTP address that must be there. */
export const requiredHttpAddress = (about: string) => text(about, { ...HTTP_ADDRESS, required: true });

/** Names with a value each: variables, headers. */
export const texts = (about: string) =>
  mapOf(about, text('Its value.', { required: true, expected: 'a text (put it in quotes)' }), {
    key: /^[A-Za-z_][\w-]*$/,
    expectedKey: 'the name of a variable or header',
  });

/** The two places a bearer token may be in. */
export const tokenFields = (whose: string) => ({
  token_env: variable(`The variable with ${whose}.`, 'token_env: FLEET_TOKEN'),
  token_file: path('Or the file with it, read whenever it is used.', 'token_file: ./fleet.token'),
});

/** Reports a secret that is said to be in two places. */
export function oneSecret(
  { tokenEnv, tokenFile }: { readonly tokenEnv?: string; readonly tokenFile?: string },
  at: string,
  problem: Problems,
): void {
  if (tokenEnv !== undefined && tokenFile !== undefined) problem(at, 'expected token_env or token_file, got both');
}

/** A map with `key`, or just its value: `executor: claude` is short for `executor: { kind: claude }`. */
export function shortFor<T>(key: string, whole: Field<T>): Field<T> {
  return {
    ...whole,
    expected: `a text, or a map with ${key}`,
    schema: (): JsonSchema => ({ anyOf: [{ type: 'string' }, whole.schema()] }),
    read(node, at, reading) {
      if (node?.kind !== 'scalar' || typeof node.value !== 'string') return whole.read(node, at, reading);
      const { line, column } = node;
      return whole.read({ kind: 'map', entries: [{ key, value: node, line, column }], line, column }, at, reading);
    },
  };
}

/** Where results are sent that nobody waits for. */
export const callback = group(
  'Managed mode: a task is confirmed at once, and its result is sent here when it has ended.',
  {
    url: requiredHttpAddress('Address of the orchestrator, without a path.'),
    ...tokenFields('the bearer token it is shown'),
  },
  { optional: true },
);
