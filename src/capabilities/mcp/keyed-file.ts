/**
 * A small JSON file of the plugin with an entry for each server of the configuration. Entries are changed one after the
 * other.
 */
import { join } from 'node:path';
import { readRegular } from '../../base/regular-file.ts';
import { replaceFile } from '../../base/replace-file.ts';
import { SerialWork } from '../../base/serial-work.ts';
import { errnoOf } from '../../base/workspace/file-error.ts';
import { isObject } from '../../wire/json.ts';

export class KeyedFile<Entry> {
  readonly #folder: () => Promise<string>;
  readonly #name: string;
  readonly #damaged: (file: string) => Record<string, Entry>;
  readonly #work = new SerialWork();

  /**
   * @param folder returns the folder of the plugin
   * @param damaged returns the replacement of the contents of an unreadable file; may throw
   */
  constructor(folder: () => Promise<string>, name: string, damaged: (file: string) => Record<string, Entry>) {
    this.#folder = folder;
    this.#name = name;
    this.#damaged = damaged;
  }

  /** Returns the entry of a server; undefined if it has none. Rejects with the errors of `damaged` and of the file system. */
  async read(key: string): Promise<Entry | undefined> {
    await this.#work.idle();
    return (await this.#all())[key];
  }

  /** Changes an entry; undefined removes it. Rejects as {@link read} does. */
  write(key: string, entry: Entry | undefined): Promise<void> {
    return this.#work.run(async () => {
      // The text leaves out an undefined entry.
      const text = JSON.stringify({ ...(await this.#all()), [key]: entry }, null, 1);
      await replaceFile(await this.#file(), text);
    });
  }

  async #file(): Promise<string> {
    return join(await this.#folder(), this.#name);
  }

  async #all(): Promise<Record<string, Entry>> {
    const file = await this.#file();
    const text = await readRegular(file).catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return '{}';
      throw error;
    });
    try {
      const read: unknown = JSON.parse(text);
      if (isObject(read)) return read as Record<string, Entry>;
    } catch {
      // Invalid JSON counts as damaged, as does JSON that is no object.
    }
    return this.#damaged(file);
  }
}
