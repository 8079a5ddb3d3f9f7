/**
 * Decides whether a path is inside a folder. A name may begin with two dots: `..foo` is an entry of the folder. No other file compares
 * the start of a path with `..`. Links are not followed here; `workspace/workspace-path.ts` does that.
 */
import { isAbsolute, relative, sep } from 'node:path';

/**
 * True for a path from a folder that leads out of it.
 * @param path as `relative` and `normalize` give it, with `..` at its start alone
 */
export const leadsOut = (path: string): boolean => path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path);

/** True for the folder and all that is below it. */
export const isInside = (folder: string, path: string): boolean => !leadsOut(relative(folder, path));
