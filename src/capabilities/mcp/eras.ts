/**
 * The generation of the protocol that each server of the configuration spoke last, in one file of the plugin: a host that starts
 * again need not find it out again. What cannot be read or written is found out again.
 */
import type { EraStore, McpEra } from '../../mcp/era.ts';
import { KeyedFile } from './keyed-file.ts';

export class EraFile {
  readonly #file: KeyedFile<McpEra>;

  /** @param folder that of the plugin */
  constructor(folder: () => Promise<string>) {
    this.#file = new KeyedFile(folder, 'server-eras.json', () => ({}));
  }

  /** The generation of one server, by the key that its definitions have. */
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
