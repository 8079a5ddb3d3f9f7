/**
 * Writes the checks of messages (`src/wire/message-check.ts`): a test for each schema, as short as it can be, and the
 * schema itself for the texts. A part that several messages have is in the file once.
 */
import type { Schema } from './members.ts';

/** Keywords a schema may have. The interpreter of `message-check.ts` knows the same. */
const KEYWORDS = new Set(
  'type const enum anyOf pattern maximum minimum exclusiveMinimum maxItems minItems items required additionalProperties properties'.split(
    ' ',
  ),
);

const IDENTIFIER = /^[A-Za-z_]\w*$/;

export class CheckCode {
  readonly #source: string;
  readonly #lines: string[] = [];
  /** Names of the written constants, by their code. */
  readonly #names = new Map<string, string>();
  readonly #used = new Map<string, number>();

  /** @param source the file of the schemas, for errors */
  constructor(source: string, schemas: readonly Schema[]) {
    this.#source = source;
    for (const schema of schemas) this.#count(schema);
  }

  /** The lines so far, each a constant. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  /** Returns the arguments of `messageCheck` for a schema. */
  check(schema: Schema): string {
    return `${this.#test(schema)},()=>(${this.#schema(schema)})`;
  }

  #count(schema: Schema): void {
    const text = JSON.stringify(schema);
    const times = (this.#used.get(text) ?? 0) + 1;
    this.#used.set(text, times);
    if (times === 1) for (const part of partsOf(schema)) this.#count(part);
  }

  /** Returns the name of a constant; the same code is written once. */
  #constant(prefix: string, code: string): string {
    const known = this.#names.get(code);
    if (known !== undefined) return known;
    const name = `${prefix}${this.#names.size}`;
    this.#names.set(code, name);
    this.#lines.push(`const ${name}=${code};`);
    return name;
  }

  /** Returns the name of a function that tests a value. */
  #test(schema: Schema): string {
    return this.#constant('t', `(d,v)=>${this.#expression(schema, 'd') || 'true'}`);
  }

  /** Returns the condition that a value is valid; empty for a schema that takes any. `at` is a name. */
  #expression(schema: Schema, at: 'd' | 'v'): string {
    for (const keyword of Object.keys(schema)) {
      if (!KEYWORDS.has(keyword)) throw new Error(`${this.#source}: the checks of messages know no "${keyword}"`);
    }
    // A keyword has no rule for a null beside its type.
    if (Array.isArray(schema.type) && schema.type.includes('null') && Object.keys(schema).length > 1) {
      const rest = this.#expression({ ...schema, type: schema.type.filter((name) => name !== 'null') }, at);
      return `(${at}===null||${rest})`;
    }
    const { type, const: only, enum: words, anyOf, pattern, maximum, minimum, maxItems, items, required } = schema;
    const { exclusiveMinimum, minItems, additionalProperties, properties } = schema;
    const parts: string[] = [];
    if (type !== undefined && typeof only !== type)
      parts.push(anyOfCode([type].flat().map((name) => typeCode(name, at))));
    if (maximum !== undefined) parts.push(`${at}<=${maximum}`);
    if (minimum !== undefined) parts.push(`${at}>=${minimum}`);
    if (exclusiveMinimum !== undefined) parts.push(`${at}>${exclusiveMinimum}`);
    if (pattern !== undefined) {
      parts.push(`${this.#constant('p', `new RegExp(${JSON.stringify(pattern)},"u")`)}.test(${at})`);
    }
    if (only !== undefined) parts.push(`${at}===${primitive(only)}`);
    if (words !== undefined) {
      const list = this.#constant('w', `[${words.map(primitive).join(',')}]`);
      parts.push(
        words.length > 3 ? `${list}.includes(${at})` : anyOfCode(words.map((word) => `${at}===${primitive(word)}`)),
      );
    }
    if (anyOf !== undefined) parts.push(anyOfCode(anyOf.map((each) => this.#inline(each, at) || 'true')));
    if (maxItems !== undefined) parts.push(`${at}.length<=${maxItems}`);
    if (minItems !== undefined) parts.push(`${at}.length>=${minItems}`);
    if (items !== undefined && this.#expression(items, 'v') !== '') parts.push(`every(${at},${this.#test(items)})`);
    if (additionalProperties !== undefined) {
      if (properties !== undefined) throw new Error(`${this.#source}: additionalProperties beside properties`);
      parts.push(`everyMember(${at},${this.#test(additionalProperties)})`);
    }
    // `v` holds a member: an object inside another object has a separate test.
    if ((required ?? properties) !== undefined && at === 'v') {
      return `${this.#test(schema)}(v)`;
    }
    for (const name of required ?? []) {
      if (properties?.[name] === undefined) parts.push(`${memberCode(name)}!==undefined`);
    }
    for (const [name, member] of Object.entries(properties ?? {})) {
      const code = this.#inline(member, 'v');
      const isNeeded = required?.includes(name) === true;
      if (code !== '') {
        const value = `(v=${memberCode(name)})`;
        parts.push(isNeeded ? `${value}!==undefined&&${code}` : `(${value}===undefined||${code})`);
      } else if (isNeeded) parts.push(`${memberCode(name)}!==undefined`);
    }
    return parts.join('&&');
  }

  /** Returns an expression among others; a call if several places have it. */
  #inline(schema: Schema, at: 'd' | 'v'): string {
    const code = this.#expression(schema, at);
    const isLong = code.length > 60 && (this.#used.get(JSON.stringify(schema)) ?? 0) > 1;
    return isLong ? `${this.#test(schema)}(${at})` : code;
  }

  /** Returns the schema as an expression. */
  #schema(schema: Schema): string {
    const text = JSON.stringify(schema);
    const code = this.#schemaCode(schema);
    if ((this.#used.get(text) ?? 0) < 2 || code.length < 12) return code;
    return partsOf(schema).length === 0 ? this.#constant('s', code) : `${this.#constant('s', `()=>(${code})`)}()`;
  }

  #schemaCode(schema: Schema): string {
    const members = Object.entries(schema).map(([keyword, value]) => {
      if (keyword === 'items' || keyword === 'additionalProperties') return `${keyword}:${this.#schema(value)}`;
      if (keyword === 'anyOf') return `${keyword}:[${value.map((each: Schema) => this.#schema(each)).join(',')}]`;
      if (keyword !== 'properties') return `${keyword}:${JSON.stringify(value)}`;
      const all = Object.entries(value as Record<string, Schema>);
      return `${keyword}:{${all.map(([name, member]) => `${key(name)}:${this.#schema(member)}`).join(',')}}`;
    });
    return `{${members.join(',')}}`;
  }
}

const key = (name: string): string => (IDENTIFIER.test(name) ? name : JSON.stringify(name));
const memberCode = (name: string): string => (IDENTIFIER.test(name) ? `d.${name}` : `d[${JSON.stringify(name)}]`);
const anyOfCode = (parts: readonly string[]): string =>
  parts.length === 1 ? (parts[0] as string) : `(${parts.join('||')})`;

function partsOf({ items, additionalProperties, anyOf = [], properties = {} }: Schema): readonly Schema[] {
  return [items, additionalProperties, ...anyOf, ...Object.values(properties)].filter((part) => part !== undefined);
}

function primitive(value: unknown): string {
  if (typeof value === 'object' && value !== null) throw new Error('a constant of a message is text, a number or null');
  return JSON.stringify(value);
}

function typeCode(name: string, at: string): string {
  switch (name) {
    case 'number':
      return `Number.isFinite(${at})`;
    case 'integer':
      return `Number.isInteger(${at})`;
    case 'null':
      return `${at}===null`;
    case 'array':
      return `Array.isArray(${at})`;
    case 'object':
      return `isObject(${at})`;
    default:
      return `typeof ${at}===${JSON.stringify(name)}`;
  }
}
