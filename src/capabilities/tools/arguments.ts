/**
 * Checks what goes into a tool and what comes out of it: JSON Schema by Ajv (the only file that loads it, on first use),
 * or any Standard Schema by its own validator.
 *
 * Ajv takes tens of milliseconds to load, so a host that has not been called yet does not load it.
 */
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { type Check, shortPath, violation } from '../../wire/check.ts';
import { fail } from '../../wire/errors.ts';
import type { JsonSchema, StandardResult, StandardSchema } from './tool.ts';

/** Returns the value to go on with, or throws `schema_violation` with `detail.path`. */
export type Checker = (value: unknown) => unknown;

const isStandard = (schema: object): schema is StandardSchema => '~standard' in schema;

/** Makes checkers; shares one Ajv among all tools of a plugin. */
export class Checkers {
  #ajv: Ajv2020 | undefined;

  /**
   * The checker for a schema.
   * @param what who is told to be wrong in messages, e.g. `arguments of read_file`
   * @throws config_invalid when the schema itself is broken
   */
  async compile(schema: StandardSchema | JsonSchema, what: string): Promise<Checker> {
    if (isStandard(schema)) return (value) => standard(schema['~standard'].validate(value), what);
    this.#ajv ??= new (await import('ajv/dist/2020.js')).Ajv2020({
      useDefaults: true,
      strict: false,
      // JSON has no infinity, but 1e400 reads as one.
      strictNumbers: true,
      // Formats are annotations in JSON Schema 2020-12; without a library of them, checking would mean failing.
      validateFormats: false,
    });
    // The dialect a schema names for itself need not be one Ajv has a meta-schema for.
    const { $schema, $id, ...plain } = schema as Record<string, unknown>;
    let check: Check;
    try {
      check = this.#ajv.compile(plain) as unknown as Check;
    } catch (error) {
      throw fail(
        'config_invalid',
        `the schema of the ${what} is broken: ${(error as Error).message}`,
        undefined,
        error,
      );
    }
    // Defaults are written into the value; one that came by reference belongs to its sender.
    const fills = JSON.stringify(plain).includes('"default"');
    return (value) => {
      const mine = fills ? structuredClone(value) : value;
      if (!check(mine)) throw violation(what, check.errors);
      return mine;
    };
  }
}

function standard(result: StandardResult<unknown> | Promise<StandardResult<unknown>>, what: string): unknown {
  if ('then' in result) return result.then((settled) => standard(settled, what));
  if (result.issues === undefined) return result.value;
  const errors = result.issues.slice(0, 8).map(({ message, path = [] }) => ({
    path: shortPath(path.map((step) => `/${String(typeof step === 'object' ? step.key : step)}`).join('')),
    message,
  }));
  const first = errors[0] ?? { path: '', message: 'does not fit its schema' };
  throw fail('schema_violation', `${what}: ${first.path} ${first.message}`.replace(/ {2,}/g, ' '), {
    path: first.path,
    errors,
  });
}

/** The JSON Schema to publish for a schema, or undefined when it cannot tell. */
export function published(schema: StandardSchema | JsonSchema | undefined, given?: JsonSchema): JsonSchema | undefined {
  if (given !== undefined || schema === undefined) return given;
  if (!isStandard(schema)) return schema;
  const own = schema['~standard'] as { jsonSchema?: { input?: (options: { target: string }) => JsonSchema } };
  try {
    return own.jsonSchema?.input?.({ target: 'draft-2020-12' });
  } catch {
    return undefined; // A schema with parts that JSON Schema has no words for.
  }
}
