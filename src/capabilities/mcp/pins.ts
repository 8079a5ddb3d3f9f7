/**
 * The accepted definitions of the tools of all servers of the configuration, in one file of the plugin, so that the host
 * notices a server that changed while the host was stopped. Read when a server is listed, written when a definition is
 * accepted.
 */
import type { PinStore, Pins } from '../../mcp/tool-pins.ts';
import { fail } from '../../wire/errors.ts';
import { KeyedFile } from './keyed-file.ts';

export class PinFile {
  readonly #file: KeyedFile<Pins>;

  /** @param folder returns the folder of the plugin */
  constructor(folder: () => Promise<string>) {
    // A damaged file must not silently accept definitions.
    this.#file = new KeyedFile(folder, 'accepted-tools.json', (file) => {
      throw fail(
        'runtime_error',
        `${file}, the accepted tools of MCP servers, is damaged; remove it to accept them again`,
      );
    });
  }

  /** Returns the definitions of one server. The key selects it: a server with another command has no accepted definitions. */
  of(key: string): PinStore {
    return { read: () => this.#file.read(key), write: (pins) => this.#file.write(key, pins) };
  }
}
