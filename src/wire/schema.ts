/**
 * The doorway to the schema language: the only file that imports TypeBox.
 *
 * Only `*.schema.ts` files import it, and nothing imports those at run time: `npm run generate` turns them into
 * validators (`*.generated.ts`) and published JSON Schema (`schema/`), and their types are imported as types.
 * See docs/decisions/0003-validators-ahead-of-time.md.
 */
export { type Static, type TSchema, Type } from 'typebox';
