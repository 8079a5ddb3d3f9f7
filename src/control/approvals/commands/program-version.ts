/**
 * Names of programs with a version: `python3.12`, `clang-18`.
 */
import { trimmedEnd } from '../../../base/trim-end.ts';

/** Returns the name without its version. */
export const withoutVersion = (program: string): string => trimmedEnd(program, '0123456789.-');
