/**
 * Decides whether a path is inside a folder. A name may begin with two dots: `..foo` is an entry of the folder. No other file compares
 * the start of a path with `..`. Links are not followed here; `workspace/workspace-path.ts` does that.
 */
import { isAbsolute, relative, sep } from 'node:path';

/**
 * Returns true for a path from a folder that leads out of it.
 * @param path in the form of `relative` and `normalize`, with `..` only at its start
 */
export const leadsOut = (path: string): boolean => path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path);

/** Returns true for the folder and all paths below it. */
export const isInside = (folder: string, path: string): boolean => !leadsOut(relative(folder, path));
