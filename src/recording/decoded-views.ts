/**
 * A text as decoders of its place would read it: percent-encoding, escapes of JSON, C, shells, YAML and TOML, HTML
 * entities, quoted-printable, folded lines, case and normal forms of Unicode; also several of them inside each other.
 * Each view maps its characters to their positions in the text, so that a secret found in a view is replaced in the
 * text. Pure.
 *
 * The work is linear in the length of a text: views are made of windows, and a window has at most {@link MAX_VIEWS} of
 * them.
 */

/** A decoded text and, for each of its UTF-16 units, the range of the original that it decodes. */
export interface View {
  readonly text: string;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  /** Lines were joined or quotes left out: a word that appears by that is no finding. */
  readonly joined: boolean;
}

/** Decodings inside each other that are undone. */
const MAX_LEVELS = 5;
/** Views of one window: the first ones are the likely ones. */
export const MAX_VIEWS = 24;
/** Characters that are decoded together, so that memory stays bounded. */
const WINDOW = 256 * 1024;
/** Most characters by which {@link MAX_LEVELS} levels of escapes spell one character of a secret. */
const GROWTH = 40;

/** Adds a decoded text for the range `from` to `to` of the parent view. */
type Emit = (text: string, from: number, to: number) => void;

interface Kind {
  /** The escapes that it decodes, with the flag `g`. */
  readonly pattern: RegExp;
  readonly decode: (token: string, at: number, emit: Emit) => void;
  readonly joins?: boolean;
}

/** Escapes of bytes that follow each other: together they are UTF-8. */
function emitBytes(token: string, at: number, each: RegExp, emit: Emit): void {
  const bytes: { readonly byte: number; readonly from: number; readonly to: number }[] = [];
  for (const found of token.matchAll(each)) {
    const from = at + found.index;
    // The second group is octal.
    const byte = found[1] === undefined ? Number.parseInt(found[2]!, 8) : hex(found[1]);
    bytes.push({ byte: byte & 0xff, from, to: from + found[0].length });
  }
  for (let index = 0; index < bytes.length; ) {
    const { byte, from } = bytes[index]!;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    const group = bytes.slice(index, index + length);
    const isWhole = group.length === length && group.slice(1).every((next) => (next.byte & 0xc0) === 0x80);
    const used = isWhole ? group : group.slice(0, 1);
    const text = isWhole ? Buffer.from(used.map((one) => one.byte)).toString() : String.fromCharCode(byte);
    emit(text, from, used.at(-1)!.to);
    index += used.length;
  }
}

const hex = (digits: string): number => Number.parseInt(digits, 16);

function emitPoint(point: number, at: number, to: number, emit: Emit): void {
  emit(point <= 0x10_ffff ? String.fromCodePoint(point) : '\ufffd', at, to);
}

const PERCENT: Kind = {
  pattern: /%u[\da-fA-F]{4}|(?:%[\da-fA-F]{2})+/g,
  decode(token, at, emit) {
    if (/^%u/i.test(token)) emitPoint(hex(token.slice(2)), at, at + token.length, emit);
    else emitBytes(token, at, /%(..)/g, emit);
  },
};

/** Characters behind a backslash that are not themselves, in any of the languages. */
const SHORT: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  e: '\u001b',
  E: '\u001b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  N: '\u0085',
  _: '\u00a0',
  L: '\u2028',
  P: '\u2029',
};

const BACKSLASH: Kind = {
  pattern:
    /(?:\\x[\da-fA-F]{1,2}|\\[0-7]{1,3})+|\\(?:[ux]\{|N\{U\+)[\da-fA-F]{1,8}\}|\\u[\da-fA-F]{1,4}|\\U[\da-fA-F]{1,8}|\\\r?\n|\\[\s\S]/g,
  decode(token, at, emit) {
    const to = at + token.length;
    const digits = /^\\(?:[uUx]\{?|N\{U\+)([\da-fA-F]+)\}?$/.exec(token)?.[1];
    if (/^\\(?:x[\da-fA-F]|[0-7])/.test(token)) {
      emitBytes(token, at, /\\(?:x([\da-fA-F]{1,2})|([0-7]{1,3}))/g, emit);
    } else if (digits !== undefined) emitPoint(hex(digits), at, to, emit);
    else if (/^\\\r?\n/.test(token)) emit('', at, to);
    else emit(SHORT[token[1] as string] ?? (token[1] as string), at, to);
  },
};

/** Names of the characters of ASCII that HTML has names for. */
const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  excl: '!',
  num: '#',
  dollar: '$',
  percnt: '%',
  lpar: '(',
  rpar: ')',
  ast: '*',
  midast: '*',
  plus: '+',
  comma: ',',
  period: '.',
  sol: '/',
  colon: ':',
  semi: ';',
  equals: '=',
  quest: '?',
  commat: '@',
  lsqb: '[',
  lbrack: '[',
  bsol: '\\',
  rsqb: ']',
  rbrack: ']',
  hat: '^',
  lowbar: '_',
  underbar: '_',
  grave: '`',
  lcub: '{',
  lbrace: '{',
  verbar: '|',
  vert: '|',
  rcub: '}',
  rbrace: '}',
  tab: '\t',
  newline: '\n',
};

/** The names of U+00A0 to U+00FF, in their order. */
const LATIN_1 =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml'.split(
    ' ',
  );

const ENTITY: Kind = {
  pattern: /&(?:#\d{1,8}|#[xX][\da-fA-F]{1,8}|[a-zA-Z][a-zA-Z\d]{1,7});?/g,
  decode(token, at, emit) {
    const given = token.slice(1).replace(/;$/, '');
    const name = given.toLowerCase();
    const to = at + token.length;
    const latin = LATIN_1.indexOf(given);
    if (latin >= 0) emitPoint(0xa0 + latin, at, to, emit);
    else if (name.startsWith('#x')) emitPoint(hex(name.slice(2)), at, to, emit);
    else if (name.startsWith('#')) emitPoint(Number(name.slice(1)), at, to, emit);
    else emit(ENTITIES[name] ?? token, at, to);
  },
};

const QUOTED_PRINTABLE: Kind = {
  pattern: /(?:=(?:[\da-f]{2}|[ \t]{0,20}\r?\n))+/gi,
  decode: (token, at, emit) => emitBytes(token, at, /=([\da-f]{2})/gi, emit),
};

/** Lines of base64, of headers and of an event stream. */
const FOLDED: Kind = {
  pattern: /\r?\n(?:data: ?|[ \t]*)/g,
  decode: (token, at, emit) => emit('', at, at + token.length),
  joins: true,
};

/** Quotes between pieces that a shell, or the concatenation of a program, makes one word. */
const QUOTES: Kind = {
  pattern: /["']\s{0,3}(?:[+.&]|\|\|)?\s{0,3}["']|\$?["']/g,
  decode: (token, at, emit) => emit('', at, at + token.length),
  joins: true,
};

/** Escapes of two digits, as in filters of LDAP. */
const TWO_DIGITS: Kind = {
  pattern: /(?:\\[\da-f]{2})+/gi,
  decode: (token, at, emit) => emitBytes(token, at, /\\(..)/g, emit),
};

/** Escapes of style sheets: up to six digits and a space. */
const STYLE: Kind = {
  pattern: /\\[\da-f]{1,6}[ \t\n]?/gi,
  decode: (token, at, emit) => emitPoint(hex(token.slice(1).trim()), at, at + token.length, emit),
};

/** A shell takes any character behind a backslash as it is. */
const QUOTED_CHARACTER: Kind = {
  pattern: /\\[\s\S]/g,
  decode: (token, at, emit) => emit(token[1] === '\n' ? '' : (token[1] as string), at, at + 2),
};

/** A byte of a text as a decimal number. */
const BYTE = String.raw`(?:0|9|1[03]|3[2-9]|[4-9]\d|1\d\d|2[0-4]\d|25[0-5])(?!\d)`;

/** Bytes as they are printed: `5a:78`, `5A 78`, `0x5a, 0x78`, `5a78 3951`. Digits without anything between are read as base64 is. */
const PRINTED_BYTES: Kind = {
  pattern:
    /(?:0x)?[\da-f]{2}(?:[ :,;_-]{1,3}(?:0x)?[\da-f]{2}){7,}|[\da-f]{4}(?:[ :][\da-f]{4}){3,}(?:[ :][\da-f]{2})?/gi,
  decode: (token, at, emit) => emitBytes(token, at, /(?:0x)?([\da-f]{2})/gi, emit),
};

/** Bytes as decimal numbers: `90, 120, 57`. */
const DECIMAL_BYTES: Kind = {
  pattern: new RegExp(
    String.raw`(?<![\d.])${BYTE}(?:(?:[ ,;]{1,3}|\)[ .+&|,]{1,5}chr[bw]?\()${BYTE}){7,}(?![\d.])`,
    'gi',
  ),
  decode(token, at, emit) {
    const bytes = [...token.matchAll(/\d+/g)];
    const text = Buffer.from(bytes.map(([digits]) => Number(digits))).toString('latin1');
    const utf8 = Buffer.from(text, 'latin1').toString();
    // For characters with several bytes the assignment of numbers to bytes is unknown: each number counts for all of
    // them.
    if (utf8.length !== text.length) return emit(utf8, at, at + token.length);
    for (const [index, { 0: digits, index: from }] of bytes.entries()) {
      emit(text[index] as string, at + from, at + from + digits.length);
    }
  },
};

/** A line of `xxd`, `hexdump -C` or `od -t x1`: each byte counts for the whole line, which has it a second time as text. */
const DUMPED_BYTES: Kind = {
  pattern:
    /^[\da-f]{6,16}:?[ \t]{1,3}(?:[\da-f]{2}(?:[\da-f]{2}){0,3}(?:[ \t]{1,2}|$)){1,32}[^\r\n]{0,64}(?:\r?\n|$)/gim,
  decode(token, at, emit) {
    const [, digits = ''] = /^[\da-f]+:?[ \t]+((?:(?:[\da-f]{2}){1,4}(?:[ \t]{1,2}|$))+)/im.exec(token) ?? [];
    const bytes = Buffer.from(digits.replaceAll(/[ \t]/g, ''), 'hex');
    for (const unit of bytes.toString('latin1')) emit(unit, at, at + token.trimEnd().length);
  },
};

/** Single characters with the same signs between them: `od -c`, lists of characters, letters set apart. */
const SPACED: Kind = {
  pattern: /(?<![\w])\w(?<sign>[^\w\r\n]{1,5})\w(?:(?:\k<sign>|\r?\n[\da-f]{7}\k<sign>)\w){6,}(?!\w)/g,
  decode(token, at, emit) {
    for (const { 0: letter, index } of token.matchAll(/\w(?!\w)/g)) {
      if (!/\w/.test(token[index - 1] ?? ' ')) emit(letter, at + index, at + index + 1);
    }
  },
};

/** Octal digits behind a zero, as `echo -e` and `printf %b` read them. */
const ZERO_OCTAL: Kind = {
  pattern: /(?:\\0[0-7]{3})+/g,
  decode: (token, at, emit) => emitBytes(token, at, /\\0()?([0-7]{3})/g, emit),
};

/** Characters without a width, as a set of a regular expression. */
const UNSEEN = String.raw`\0\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff`;

/** Characters that are not drawn: sequences of a terminal (`grep --color`), zero width, the zero bytes of UTF-16. */
const INVISIBLE: Kind = {
  pattern: new RegExp(
    String.raw`\u001b\[[\d;?]{0,32}[@-~]|\u001b\][^\u0007\u001b]{0,256}(?:\u0007|\u001b\\)|\udb40[\udc00-\udfff]|[${UNSEEN}]`,
    'g',
  ),
  decode: (token, at, emit) => emit('', at, at + token.length),
  joins: true,
};

const ALONE: readonly Kind[] = [PERCENT, BACKSLASH, ENTITY];
/** Several encodings at one place. */
const TOGETHER: Kind = {
  pattern: new RegExp(ALONE.map(({ pattern }) => pattern.source).join('|'), 'g'),
  decode(token, at, emit) {
    const kind = token.startsWith('%') ? PERCENT : token.startsWith('&') ? ENTITY : BACKSLASH;
    kind.decode(token, at, emit);
  },
};

/** Returns the kinds of escapes that a text has. */
function kindsOf(text: string): readonly Kind[] {
  const kinds: Kind[] = [];
  if (/%(?:u[\da-f]{4}|[\da-f]{2})/i.test(text)) kinds.push(PERCENT);
  if (text.includes('\\')) {
    kinds.push(BACKSLASH, QUOTED_CHARACTER);
    if (/\\[\da-f]{2}/i.test(text)) kinds.push(TWO_DIGITS, STYLE);
    if (/\\0[0-7]{3}/.test(text)) kinds.push(ZERO_OCTAL);
  }
  if (/&(?:#[\dx]|[a-z][a-z\d]{1,7};)/i.test(text)) kinds.push(ENTITY);
  if (kinds.filter((kind) => ALONE.includes(kind)).length > 1) kinds.unshift(TOGETHER);
  if (/=(?:[\da-f]{2}|[ \t]{0,20}\r?\n)/i.test(text)) kinds.push(QUOTED_PRINTABLE);
  if (/(?<=[\w+/=-]{4})\r?\n[ \t]*[\w+/=-]/.test(text)) kinds.push(FOLDED);
  if (/\w\$?["'](?:[^\s]{0,8}["'\w]|\s{0,3}[+.&|"'])/.test(text)) kinds.push(QUOTES);
  if (text.search(INVISIBLE.pattern) >= 0) kinds.push(INVISIBLE);
  if (text.search(PRINTED_BYTES.pattern) >= 0) kinds.push(PRINTED_BYTES);
  if (text.search(DECIMAL_BYTES.pattern) >= 0) kinds.push(DECIMAL_BYTES);
  if (text.search(DUMPED_BYTES.pattern) >= 0) kinds.push(DUMPED_BYTES);
  if (text.search(SPACED.pattern) >= 0) kinds.push(SPACED);
  return kinds;
}

/** Text and maps that grow. */
class ViewWriter {
  readonly #parent: View;
  #text = '';
  #starts: Uint32Array;
  #ends: Uint32Array;
  #length = 0;

  constructor(parent: View) {
    this.#parent = parent;
    this.#starts = new Uint32Array(parent.text.length);
    this.#ends = new Uint32Array(parent.text.length);
  }

  /** Units of the parent as they are. */
  copy(from: number, to: number): void {
    this.#reserve(to - from);
    this.#text += this.#parent.text.slice(from, to);
    this.#starts.set(this.#parent.starts.subarray(from, to), this.#length);
    this.#ends.set(this.#parent.ends.subarray(from, to), this.#length);
    this.#length += to - from;
  }

  readonly emit: Emit = (text, from, to) => {
    this.#reserve(text.length);
    this.#text += text;
    for (let unit = 0; unit < text.length; unit++) {
      this.#starts[this.#length] = this.#parent.starts[from]!;
      this.#ends[this.#length] = this.#parent.ends[to - 1]!;
      this.#length += 1;
    }
  };

  view(joined: boolean): View {
    const { length } = this.#text;
    return { text: this.#text, starts: this.#starts.subarray(0, length), ends: this.#ends.subarray(0, length), joined };
  }

  #reserve(units: number): void {
    const needed = this.#length + units;
    if (needed <= this.#starts.length) return;
    const grown = (old: Uint32Array): Uint32Array => {
      const next = new Uint32Array(needed * 2);
      next.set(old);
      return next;
    };
    this.#starts = grown(this.#starts);
    this.#ends = grown(this.#ends);
  }
}

function decoded(parent: View, { pattern, decode, joins = false }: Kind): View {
  const writer = new ViewWriter(parent);
  let from = 0;
  for (const found of parent.text.matchAll(pattern)) {
    writer.copy(from, found.index);
    decode(found[0], found.index, writer.emit);
    from = found.index + found[0].length;
  }
  writer.copy(from, parent.text.length);
  return writer.view(parent.joined || joins);
}

function plainView(text: string, from = 0): View {
  const starts = new Uint32Array(text.length);
  const ends = new Uint32Array(text.length);
  for (let at = 0; at < text.length; at++) {
    starts[at] = from + at;
    ends[at] = from + at + 1;
  }
  return { text, starts, ends, joined: false };
}

/** True when a text may have something to decode. */
const MAY_DECODE = new RegExp(
  [
    String.raw`[%\\&\n"'\u001b${UNSEEN}]|=[\da-f]{2}|\d[ ,;]{1,3}\d{1,3}[ ,;]{1,3}\d`,
    String.raw`\udb40|\)[ .+&|,]{1,5}chr|(?<!\w)\w([^\w\r\n]{1,5})\w\1\w\1\w`,
    String.raw`[\da-f]{2}[ :,;_-]{1,3}(?:0x)?[\da-f]{2}[ :,;_-]|[\da-f]{4}[ :]{1,3}[\da-f]{4}[ :]`,
  ].join('|'),
  'i',
);

/** Calls `look` with each decoded view of the text. @param longest length of the longest secret that is searched for */
export function eachView(text: string, longest: number, look: (view: View) => void): void {
  if (!MAY_DECODE.test(text)) return;
  const overlap = Math.min(WINDOW / 2, longest * GROWTH);
  for (let at = 0; ; at += WINDOW - overlap) {
    const to = Math.min(text.length, at + WINDOW);
    const window = text.slice(at, to);
    if (kindsOf(window).length > 0) viewsOf(plainView(window, at), look);
    if (to === text.length) return;
  }
}

function viewsOf(plain: View, look: (view: View) => void): void {
  const seen = new Set([plain.text]);
  let level: readonly View[] = [plain];
  for (let depth = 0; depth < MAX_LEVELS && level.length > 0; depth++) {
    const next: View[] = [];
    for (const parent of level) {
      for (const kind of kindsOf(parent.text)) {
        if (seen.size > MAX_VIEWS) return;
        const view = decoded(parent, kind);
        if (seen.has(view.text)) continue;
        seen.add(view.text);
        look(view);
        next.push(view);
      }
    }
    level = next;
  }
}

const ASCII = /^[\0-\x7f]*$/;
/** A character with the marks that belong to it, which normal forms change together. */
const SEGMENTS = /\P{M}?\p{M}*/gsu;

/**
 * Returns the text in the form for comparisons that ignore case and forms of one character: host names, names of
 * headers, file names. A plus sign is a space, as in forms.
 */
export const folded = (text: string): string =>
  ASCII.test(text)
    ? text.toLowerCase().replaceAll('+', ' ')
    : [...text.matchAll(SEGMENTS)].map(([segment]) => foldedSegment(segment)).join('');

const foldedSegment = (segment: string): string => segment.normalize('NFKC').toLowerCase().replaceAll('+', ' ');

/** Returns the view in its {@link folded} form. */
export function foldedView(view: View): View {
  if (ASCII.test(view.text)) return { ...view, text: folded(view.text) };
  const writer = new ViewWriter(view);
  for (const { 0: segment, index } of view.text.matchAll(SEGMENTS)) {
    if (segment !== '') writer.emit(foldedSegment(segment), index, index + segment.length);
  }
  return writer.view(view.joined);
}

/** Returns the text itself as a view, in its {@link folded} form. */
export const foldedText = (text: string): View => foldedView(plainView(text));

/** An escape that the end of a piece has cut. */
const CUT_ESCAPE = /(?:%[\da-f]?|\\(?:u[\da-f]{0,3}|x[\da-f]?|[0-7]{0,2})?|&#?\w{0,8}|=[\da-f]?)$/i;

/** Returns the text of a view without an escape that was cut at its end. */
export const withoutCut = (text: string): string => text.replace(CUT_ESCAPE, '');
