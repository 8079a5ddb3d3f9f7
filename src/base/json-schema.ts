/**
 * Checks values against JSON Schemas that come at run time: of tools, of answers to approvals, of answers to tasks. By Ajv;
 * the only file that loads it, on first use, because it takes tens of milliseconds to load.
 */
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { type Check, violation } from '../wire/check.ts';
import { fail } from '../wire/errors.ts';

/** A JSON Schema document (2020-12 vocabulary as far as Ajv's default build knows it). */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Returns the value to go on with, defaults filled in, or throws `schema_violation` with `detail.path` and `detail.errors`. */
export type SchemaChecker = (value: unknown) => unknown;

/** Makes checkers; all of one maker share one Ajv. Nothing is kept of a schema but its checker. */
export class JsonSchemas {
  #ajv: Ajv2020 | undefined;

  /**
   * The checker for a schema.
   * @param what who is told to be wrong in messages, e.g. `arguments of read_file`
   * @throws config_invalid when the schema itself is broken
   */
  async compile(schema: JsonSchema, what: string): Promise<SchemaChecker> {
    this.#ajv ??= new (await import('ajv/dist/2020.js')).Ajv2020({
      useDefaults: true,
      strict: false,
      // JSON has no infinity, but 1e400 reads as one.
      strictNumbers: true,
      // Formats are annotations in JSON Schema 2020-12; without a library of them, checking would mean failing.
      validateFormats: false,
    });
    // The dialect a schema names for itself need not be one Ajv has a meta-schema for; `$async` would make every value pass.
    const { $schema, $id, $async, ...plain } = schema;
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
    } finally {
      // Ajv would hold on to every schema it has ever seen.
      this.#ajv.removeSchema(plain);
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
