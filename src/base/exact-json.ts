/**
 * Reads JSON that a person wrote without loss: `JSON.parse` rounds numbers that have more digits than a double can
 * hold, and drops all equal keys except the last. Pure. For arguments and files of the command line.
 */
import { MAX_DEPTH } from '../wire/depth.ts';
import { scanJson } from '../wire/json-scan.ts';
import { trimmedEnd } from './trim-end.ts';

/** A value, or the reason for its absence: `lost` names the loss, and is undefined for a text that is not JSON. */
export type ExactJson =
  | { readonly value: unknown; readonly lost?: undefined }
  | { readonly lost: string | undefined; readonly message: string };

/** Reads a JSON text exactly. */
export function exactJson(text: string): ExactJson {
  let rounded: string | undefined;
  let value: unknown;
  try {
    value = JSON.parse(text, (_, member: unknown, context?: { readonly source?: string }) => {
      const { source } = context ?? {};
      if (typeof member === 'number' && source !== undefined && !keepsDigits(source, member)) rounded ??= source;
      return member;
    });
  } catch (error) {
    return { lost: undefined, message: (error as Error).message };
  }
  const [finding] = scanJson(text, MAX_DEPTH);
  if (finding !== undefined) return lossy(FINDINGS[finding.code]?.(finding.path) ?? finding.code);
  if (rounded !== undefined) return lossy(roundedNumber(rounded));
  return { value };
}

/** Returns the value of a JSON text. Throws a SyntaxError with the reason if the text is not JSON. */
export function parseExactJson(text: string): unknown {
  const read = exactJson(text);
  if ('value' in read) return read.value;
  throw new SyntaxError(read.message);
}

const lossy = (lost: string): ExactJson => ({ lost, message: lost });

const FINDINGS: Readonly<Record<string, (path: string) => string>> = {
  E_DUP_KEY: (path) => `the key ${path} occurs twice in one object`,
  E_RESERVED_KEY: (path) => `the key ${path} is not allowed`,
  E_LIMIT: () => `it is nested more than ${MAX_DEPTH} deep`,
};

/** Returns the message for a number that a double would round. */
const roundedNumber = (source: string): string =>
  `the number ${source.slice(0, 60)} has more digits than a number of JSON keeps; write it in quotes`;

/** Returns true if a decimal number, read as a double, is still the same number. */
export function keepsDigits(source: string, value: number): boolean {
  if (source.length <= SAFE_DIGITS && !/[eE]/.test(source)) return true;
  return Number.isFinite(value) && decimalOf(source) === decimalOf(String(value));
}

/** Digits that every double preserves. */
const SAFE_DIGITS = 15;

/** Returns a decimal number in one form: its digits without zeros at the ends, and the power of ten of the last digit. */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const short = trimmedEnd(digits, '0');
  if (short === '') return '0';
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - short.length);
  return `${sign === '-' ? '-' : ''}${short}e${exponent}`;
}
