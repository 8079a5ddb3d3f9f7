/**
 * The last protocol generation of each server of the configuration, in one file of the plugin: a restarted host need not detect
 * it again. An entry that cannot be read or written is detected again.
 */
import type { EraStore, McpEra } from '../../mcp/era.ts';
import { KeyedFile } from './keyed-file.ts';

export class EraFile {
  readonly #file: KeyedFile<McpEra>;

  /** @param folder returns the folder of the plugin */
  constructor(folder: () => Promise<string>) {
    this.#file = new KeyedFile(folder, 'server-eras.json', () => ({}));
  }

  /** Returns the store of the generation of one server, by the key that its definitions have. */
  of(key: string): EraStore {
    return {
      read: async () => {
        const era = await this.#file.read(key).catch(() => undefined);
        return era === 'stateless' || era === 'sessions' ? era : undefined;
      },
      write: (era) => this.#file.write(key, era).catch(() => {}),
    };
  }
}
