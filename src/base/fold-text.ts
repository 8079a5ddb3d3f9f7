/**
 * One form for texts that are compared or searched: Unicode's full case folding over compatibility forms, without
 * ignorable characters and without marks that do not distinguish words. Pure. Every search of the project works on this
 * form: of memories, files, tools, skills and sessions.
 *
 * Changing it means new indexes: see `capabilities/memory/engine/words.ts` and
 * `capabilities/tools/builtin/passages.ts`.
 * @see https://www.unicode.org/reports/tr15/ https://www.unicode.org/Public/UNIDATA/CaseFolding.txt
 */

/**
 * Combining marks of all scripts that count nothing at the primary strength of CLDR's root collation: accents, points, tone marks,
 * nuktas, and the tatweel; as hexadecimal ranges. Vowel signs and viramas of Indic scripts are letters there and stay, and so do the
 * sound marks of kana. Made with ICU 78.
 */
const MARKS = [
  '300-36f 483-489 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 640 64b-65f 670 6d6-6dc 6df-6e4 6e7-6e8 6ea-6ed 711',
  '730-74a 7eb-7f3 7fd 818-819 81c-823 825-827 829-82d 859-85b 897-89f 8ca-903 93c 951-954 981-983 9bc 9fe-a03 a3c',
  'a70-a71 a81-a83 abc afa-b03 b3c b55 b82 c00-c04 c3c c81-c83 cbc cf3-d03 d81-d83 e47-e4e ec8-ece f18-f19 f35 f37',
  'f39 f3e-f3f f7e-f7f f82-f83 f86-f87 fc6 1036-1038 135d-135f 17c6-17d1 17d3 17dd 1939-193b 1a74-1a7f 1ab0-1abe',
  '1ac1-1acb 1acf-1b04 1b34 1b6b-1b73 1b80-1b82 1be6 1c37 1cd0-1cd2 1cd4-1ce8 1ced 1cf4 1cf7-1cf9 1dc0-1dc9',
  '1dcb-1dd1 1df5-1dff 20d0-20f0 2cef-2cf1 2d7f 302a-302f a66f-a672 a67c-a67d a6f0-a6f1 a80b a880-a881 a8c5',
  'a8e0-a8f1 a92b-a92d a980-a983 a9b3 aabf aac1 abec fb1e fe20-fe2f 101fd 102e0 10a0d-10a0f 10a38-10a3a',
  '10ae5-10ae6 10d24-10d27 10d6a-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 10f82-10f85 11000-11002 11080-11082',
  '110ba 11100-11102 11173 11180-11182 111c9-111cc 111cf 11234 11236-11237 1123e 112df 112e9 11300-11303',
  '1133b-1133c 11366-11374 113ca-113cd 113d2 113e1-113e2 11443-11446 1145e 114bf-114c1 114c3 115bc-115be 115c0',
  '1163d-1163e 11640 116ab-116ac 116b7 11837-11838 1183a 1193b-1193c 11943 119de-119df 11a33 11a35-11a39',
  '11a96-11a98 11c3c-11c3e 11cb5-11cb6 11d40-11d43 11d95-11d96 11f00-11f01 11f03 11f5a 13440 13447-13455 1612d',
  '16af0-16af4 16b30-16b36 16fe4-16ff1 1bc9d-1bc9e 1cf00-1cf46 1d165-1d169 1d16d-1d182 1d185-1d18b 1d1aa-1d1ad',
  '1d242-1d244 1da00-1da36 1da3b-1da6c 1da75 1da84 1da9b-1daaf 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef',
  '1e5ee-1e5ef 1e8d0-1e8d6 1e944-1e94a',
].join(' ');

const marks = new RegExp(
  `[\\p{Default_Ignorable_Code_Point}${MARKS.replaceAll(/[\da-f]+/g, '\\u{$&}').replaceAll(' ', '')}]+`,
  'gu',
);

/** The letters that `folded` changes in a text of ASCII. */
const upperCase = /[A-Z]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are ASCII.
const ascii = /^[\u0000-\u007f]*$/;

/** Returns the folded form of a text. White space and control characters stay. */
export function folded(text: string): string {
  if (ascii.test(text)) return upperCase.test(text) ? text.toLowerCase() : text;
  return caseFolded(text.toWellFormed().normalize('NFKD')).normalize('NFKD').replace(marks, '').normalize('NFKC');
}

/**
 * Applies full case folding. Upper case turns `ß` into `ss`, and lower case gives one form of letters that have
 * several; capital ẞ needs lower case first. The dotless ı folds to itself, and the final sigma to the other.
 */
const caseFolded = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\u0131]+/g, (part) => part.toUpperCase())
    .toLowerCase()
    .replaceAll('ς', 'σ');
