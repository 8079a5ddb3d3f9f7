/**
 * How the members of a message are read, where a protocol says more about reading than a JSON Schema can: as a note of the
 * schema, and in the short form that `npm run generate` writes for the reader of the dialect.
 *
 * Notes are written in `*.schema.ts` (key {@link NOTE}, which the published schemas leave out). `scripts/members.ts` makes
 * the short form; `fleet/messages/reader.ts` and `rpc-reader.ts` walk it.
 */

/** The key of a note in a schema. */
export const NOTE = 'x-read';

/** What a dialect says about reading a value, beside its JSON Schema. */
export interface Note {
  /** The class of the value, a word of the dialect; absent: the JSON type says it. */
  readonly as?: string;
  /** What readers get where the value is absent, so that it need not be there. */
  readonly absent?: unknown;
  /** Known words. A string outside them is accepted, with a warning. */
  readonly words?: readonly string[];
  /** What a string outside `words` is read as; absent: as it is. */
  readonly other?: string;
  /** The words of the refusal of a text outside `oneOf`. */
  readonly refusal?: string;
  /** Of a text: a user writes it, and it may be long. Every other text names something, and is short. */
  readonly long?: true;
  /** Of an object: members that no schema names are warned of. */
  readonly warns?: true;
  /** Of an object: what is read has every member, null where it is absent. */
  readonly full?: true;
  /** Of an object: its members are read into the object that holds it. */
  readonly spread?: true;
  /** Checked, then left out of what is read. */
  readonly unused?: true;
}

/** A value in its short form: the note, and what the reader needs of the schema. */
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
