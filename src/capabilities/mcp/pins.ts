/**
 * The accepted definitions of the tools of all servers of the configuration, in one file of the plugin, so that a server that
 * changed while the host was stopped is noticed. Read when a server is listed, written when a definition is accepted.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../../base/replace-file.ts';
import { errnoOf } from '../../base/workspace/file-error.ts';
import type { PinStore, Pins } from '../../mcp/tool-pins.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';

const FILE = 'accepted-tools.json';

export class PinFile {
  readonly #folder: () => Promise<string>;
  /** Writes follow one another. */
  #writing: Promise<unknown> = Promise.resolve();

  /** @param folder that of the plugin */
  constructor(folder: () => Promise<string>) {
    this.#folder = folder;
  }

  /** The definitions of one server. The key says which: a server of another command has nothing accepted. */
  of(key: string): PinStore {
    return {
      read: async () => {
        await this.#writing;
        return (await this.#all())[key];
      },
      write: (pins) => {
        const written = this.#writing.then(async () => {
          const text = JSON.stringify({ ...(await this.#all()), [key]: pins }, null, 1);
          await replaceFile(join(await this.#folder(), FILE), text);
        });
        this.#writing = written.catch(() => {});
        return written;
      },
    };
  }

  async #all(): Promise<Record<string, Pins>> {
    const file = join(await this.#folder(), FILE);
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return '{}';
      throw error;
    });
    try {
      const read: unknown = JSON.parse(text);
      if (isObject(read)) return read as Record<string, Pins>;
    } catch {
      // Damaged: see below.
    }
    // Nothing is accepted in silence.
    throw fail(
      'runtime_error',
      `${file}, the accepted tools of MCP servers, is damaged; remove it to accept them again`,
    );
  }
}
