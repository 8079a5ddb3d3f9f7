/**
 * Checks values against JSON Schemas that arrive at run time: of tools, of grants, of chains. By Ajv; the only file
 * that loads it, on first use, because it takes tens of milliseconds to load. `foreign-schemas.ts` checks values
 * against schemas that strangers wrote.
 */
import type { Ajv, Options } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { type Check, violation } from '../wire/check.ts';
import { fail } from '../wire/errors.ts';
import { pointer } from '../wire/findings.ts';

/** A JSON Schema document (2020-12 vocabulary as far as Ajv's default build knows it). */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Returns the value to use, defaults filled in, or throws `schema_violation` with `detail.path` and `detail.errors`. */
export type SchemaChecker = (value: unknown) => unknown;

/**
 * Returns a validator that is compiled when the first value arrives, and uses no memory until then. It accepts values
 * without changes: no defaults are filled in. A broken schema fails every value, with its reason.
 */
export function lazyCheck(schema: JsonSchema): Check {
  let compiled: Check | undefined;
  const check: Check = (value) => {
    compiled ??= compileNow(schema);
    const fits = compiled(value);
    check.errors = compiled.errors;
    return fits;
  };
  return check;
}

function compileNow({ $schema, $id, $async, ...plain }: JsonSchema): Check {
  // A page has no Ajv: the host checks the values that the page sends.
  if (typeof process !== 'object') return Object.assign(() => true, { errors: null });
  const Ajv = ajvNow();
  try {
    // The meta-schema costs tens of milliseconds to compile; errors are found without it.
    const ajv = new Ajv({
      strict: false,
      strictNumbers: true,
      validateFormats: false,
      meta: false,
      validateSchema: false,
    });
    return ajv.compile(plain) as unknown as Check;
  } catch (error) {
    const message = `cannot be checked: its schema is broken (${(error as Error).message})`;
    const errors = [{ instancePath: '', keyword: 'schema', params: {}, message }];
    return Object.assign(() => false, { errors });
  }
}

/** Loads Ajv synchronously: for checks that must not be asynchronous. */
const ajvNow = (): typeof Ajv2020 => ajvModule('ajv/dist/2020.js').Ajv2020 as typeof Ajv2020;

const ajvModule = (name: string): Readonly<Record<string, unknown>> =>
  process.getBuiltinModule('node:module').createRequire(import.meta.url)(name);

/** Schemas that name these drafts, which many servers still write: an `items` that is a list has another meaning in them. */
const DRAFT_7 = /^https?:\/\/json-schema\.org\/draft-0[67]\//;

/** Makes checkers; all of one maker share one Ajv of a dialect. Only the checker of a schema is stored. */
export class JsonSchemas {
  readonly #fills: boolean;
  #ajv: Ajv2020 | undefined;
  #draft7: Ajv | undefined;

  /** @param fills false: no defaults are filled in */
  constructor(fills = true) {
    this.#fills = fills;
  }

  /**
   * Returns the checker for a schema.
   * @param what the subject of error messages, e.g. `arguments of read_file`
   * @throws config_invalid when the schema itself is broken
   */
  async compile(schema: JsonSchema, what: string): Promise<SchemaChecker> {
    if (!DRAFT_7.test(String(schema.$schema)))
      this.#ajv ??= ajvFor((await import('ajv/dist/2020.js')).Ajv2020, this.#fills);
    return this.compileNow(schema, what);
  }

  /** Compiles as {@link compile}, synchronously: the first call loads Ajv and blocks for tens of milliseconds. */
  compileNow(schema: JsonSchema, what: string): SchemaChecker {
    if (DRAFT_7.test(String(schema.$schema))) {
      this.#draft7 ??= ajvFor(ajvModule('ajv').Ajv as typeof Ajv, this.#fills);
      return compiled(this.#draft7, schema, what);
    }
    this.#ajv ??= ajvFor(ajvNow(), this.#fills);
    return compiled(this.#ajv, schema, what);
  }
}

const ajvFor = <Made extends Ajv>(Made: new (options: Options) => Made, useDefaults: boolean): Made =>
  new Made({
    useDefaults,
    strict: false,
    // JSON has no infinity, but 1e400 reads as one.
    strictNumbers: true,
    // Formats are annotations in JSON Schema 2020-12; without a library of them, checking would mean failing.
    validateFormats: false,
  });

function compiled(ajv: Ajv, schema: JsonSchema, what: string): SchemaChecker {
  // The dialect a schema names for itself need not be one Ajv has a meta-schema for; `$async` would make every value pass.
  const { $schema, $id, $async, ...rest } = schema;
  // Others may have the same id, and only references by it need it.
  const plain = typeof $id === 'string' && isReferredTo($id, rest) ? { ...rest, $id } : rest;
  let check: Check;
  try {
    check = ajv.compile(plain) as unknown as Check;
  } catch (error) {
    const { path, message } = mistakeIn(plain, ajv.errors, error as Error);
    throw fail('config_invalid', `the schema of the ${what} is invalid: ${path} ${message}`, { path }, error);
  } finally {
    // Ajv would hold on to every schema it has ever seen.
    ajv.removeSchema(plain);
  }
  // Defaults are written into the value; a value that arrived by reference belongs to its sender.
  const fills = ajv.opts.useDefaults === true && JSON.stringify(plain).includes('"default"');
  return (value) => {
    const mine = fills ? structuredClone(value) : value;
    if (!check(mine)) throw violation(what, check.errors);
    return mine;
  };
}

const isReferredTo = (id: string, schema: JsonSchema): boolean =>
  URL.canParse(id) && /"\$ref":"(?!#)/.test(JSON.stringify(schema));

/** Returns the place where a schema that Ajv refuses is broken, as a JSON pointer, and the reason. */
function mistakeIn(
  schema: JsonSchema,
  errors: readonly { instancePath: string; message?: string; params: object }[] | null | undefined,
  { message, ...thrown }: Error & { missingRef?: string },
): { path: string; message: string } {
  const [first] = errors ?? [];
  if (first !== undefined) {
    const { allowedValues } = first.params as { allowedValues?: unknown };
    const values = Array.isArray(allowedValues) ? `: ${allowedValues.join(', ')}` : '';
    return { path: first.instancePath, message: `${first.message}${values}` };
  }
  // The meta-schema accepts it; compiling refuses a reference to nothing or a regular expression.
  const at = pathTo(schema, (key, value) => {
    if (key === '$ref') return value === thrown.missingRef;
    if (key !== 'pattern' || typeof value !== 'string') return false;
    try {
      return new RegExp(value, 'u') === undefined;
    } catch {
      return true;
    }
  });
  return { path: at ?? '', message };
}

/** Returns the JSON pointer of the first member that matches. */
function pathTo(value: unknown, isIt: (key: string, value: unknown) => boolean, path = ''): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, member] of Object.entries(value)) {
    const at = pointer(path, key);
    const found = isIt(key, member) ? at : pathTo(member, isIt, at);
    if (found !== undefined) return found;
  }
  return undefined;
}
