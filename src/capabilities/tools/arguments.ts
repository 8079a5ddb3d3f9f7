/**
 * Checks the arguments and the results of tools: JSON Schema, or any Standard Schema by its own validator.
 */
import { JsonSchemas } from '../../base/json-schema.ts';
import { shortPath } from '../../wire/check.ts';
import { fail } from '../../wire/errors.ts';
import type { JsonSchema, StandardResult, StandardSchema } from './tool.ts';

/** Returns the value to use, or throws `schema_violation` with `detail.path`. */
export type ArgumentValidator = (value: unknown) => unknown;

const isStandard = (schema: object): schema is StandardSchema => '~standard' in schema;

/** Makes checkers; those of one maker share one JSON Schema compiler. */
export class ValidatorCache {
  readonly #schemas = new JsonSchemas();

  /**
   * Returns the checker for a schema.
   * @param what the subject of error messages, e.g. `arguments of read_file`
   * @throws config_invalid when the schema itself is broken
   */
  async compile(schema: StandardSchema | JsonSchema, what: string): Promise<ArgumentValidator> {
    if (isStandard(schema)) return (value) => standard(schema['~standard'].validate(value), what);
    return this.#schemas.compile(schema, what);
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

/** Returns the JSON Schema to publish for a schema, or undefined when the schema offers none. */
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
