/**
 * The files of a folder, for completing `@file`: those that `.gitignore` does not leave out, nearest first, up to a number
 * and a time, so that a folder with millions of files costs no more than one with thousands.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeControls } from '../../../base/escape-controls.ts';
import { type IgnoreRules, noRules } from '../../../capabilities/tools/builtin/ignore-rules.ts';

export interface ProjectFilesOptions {
  /** Maximum number of paths of a list. Default 20,000. */
  readonly maxPaths?: number;
  /** Longest time for a list, milliseconds. Default 1000. */
  readonly maxMs?: number;
  /** Time a list is used again, milliseconds. Default 5000. */
  readonly freshMs?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** A folder that is still to be read. */
interface Folder {
  readonly path: string;
  readonly rules: IgnoreRules;
}

export class ProjectFiles {
  readonly #top: string;
  readonly #options: Required<ProjectFilesOptions>;
  #list: { readonly at: number; readonly paths: Promise<readonly string[]> } | undefined;

  constructor(top: string, options: ProjectFilesOptions = {}) {
    this.#top = top;
    this.#options = { maxPaths: 20_000, maxMs: 1000, freshMs: 5000, now: () => performance.now(), ...options };
  }

  /**
   * Returns the paths from the folder; paths of folders end with `/`. Never rejects: a folder that cannot be read is left out.
   */
  paths(): Promise<readonly string[]> {
    const { freshMs, now } = this.#options;
    if (this.#list === undefined || now() - this.#list.at > freshMs) this.#list = { at: now(), paths: this.#walk() };
    return this.#list.paths;
  }

  async #walk(): Promise<readonly string[]> {
    const { maxPaths, maxMs, now } = this.#options;
    const until = now() + maxMs;
    const found: string[] = [];
    const folders: Folder[] = [{ path: '', rules: noRules }];
    for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
      if (now() > until) break;
      for (const path of await this.#read(folder, folders)) {
        if (found.push(path) >= maxPaths) return found;
      }
    }
    return found;
  }

  /** Returns the paths in one folder; its folders are added to those that are still to be read. */
  async #read({ path, rules: above }: Folder, folders: Folder[]): Promise<string[]> {
    try {
      const entries = await readdir(join(this.#top, path), { withFileTypes: true });
      const hasRules = entries.some((entry) => entry.name === '.gitignore' && entry.isFile());
      const text = hasRules ? await readFile(join(this.#top, path, '.gitignore'), 'utf8') : '';
      const rules = hasRules ? above.with(path, text) : above;
      const found: string[] = [];
      for (const entry of entries) {
        const each = path === '' ? entry.name : `${path}/${entry.name}`;
        // A name that would have to be escaped could not be typed either.
        if (entry.name === '.git' || escapeControls(entry.name) !== entry.name) continue;
        if (rules.ignores(each, entry.isDirectory())) continue;
        if (entry.isDirectory()) folders.push({ path: each, rules });
        found.push(entry.isDirectory() ? `${each}/` : each);
      }
      return found;
    } catch {
      return [];
    }
  }
}
