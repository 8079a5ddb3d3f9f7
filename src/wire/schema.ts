/**
 * The adapter file of the schema language: the only file that imports TypeBox.
 *
 * Only `*.schema.ts` files import it, and nothing imports those at run time: `npm run generate` turns them into
 * validators and readers (`*.generated.ts`) and published JSON Schema (`schema/`), and their types are imported as types.
 * See docs/decisions/0003-validators-ahead-of-time.md.
 */
import type { Static, TObject, TSchema } from 'typebox';
import type { XStatic } from 'typebox/schema';

export { type Static, type TObject, type TOptional, type TSchema, type TSchemaOptions, Type } from 'typebox';

/** A type with every member and list in it readonly. */
type Plain<T> = T extends readonly (infer E)[]
  ? readonly Plain<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Plain<T[K]> }
    : T;

/** The type of the values that a schema describes, as messages have them: readonly throughout. */
export type Wire<S extends TSchema> = Plain<Static<S>>;

/** The same type for a schema from another package: a TypeBox value, or a plain JSON Schema whose literal types are known. */
export type WireOf<S> = S extends TObject ? Wire<S> : Plain<XStatic<S>>;
