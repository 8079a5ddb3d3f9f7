/**
 * Rules for reading the members of a message that a JSON Schema cannot express: as a note of the schema, and in the
 * short form that `npm run generate` writes for the reader of the dialect.
 *
 * Notes are written in `*.schema.ts` (key {@link NOTE}, which the published schemas leave out). `scripts/members.ts`
 * writes the short form; `fleet/messages/reader.ts` and `rpc-reader.ts` walk it.
 */

/** The key of a note in a schema. */
export const NOTE = 'x-read';

/** A dialect's rules for reading a value, beside its JSON Schema. */
export interface Note {
  /** The class of the value, a word of the dialect; absent: the JSON type determines it. */
  readonly as?: string;
  /** Value that readers get if the value is absent, so that it may be left out. */
  readonly absent?: unknown;
  /** Known words. A string outside them is accepted, with a warning. */
  readonly words?: readonly string[];
  /** Value as which a string outside `words` is read; absent: the string itself. */
  readonly other?: string;
  /** The words of the refusal of a text outside `oneOf`. */
  readonly refusal?: string;
  /** Of a text: a user writes it, and it may be long. Every other text names something, and is short. */
  readonly long?: true;
  /** Of an object: members that no schema names are warned of. */
  readonly warns?: true;
  /** For an object: the read value has every member, null for an absent one. */
  readonly full?: true;
  /** Of an object: its members are read into the object that holds it. */
  readonly spread?: true;
  /** Checked, then left out of the read value. */
  readonly unused?: true;
}

/** A value in its short form: the note, and the parts of the schema that the reader needs. */
export interface Member extends Note {
  readonly as: string;
  /** Refused where it is absent. */
  readonly needed?: true;
  /** Bounds of a number, both allowed. */
  readonly min?: number;
  readonly max?: number;
  /** Entries of a list. */
  readonly items?: Member;
  /** Words of a closed list. */
  readonly oneOf?: readonly string[];
  /** Members of an object, in the order in which they are read. */
  readonly members?: Members;
}

/** The members of an object by name. */
export type Members = Readonly<Record<string, Member>>;
