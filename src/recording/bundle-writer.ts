/**
 * Writes a bundle while it is recorded. Lines are written in their order of arrival, several at once. A recorder that
 * is killed leaves a bundle that is marked as incomplete, and read up to its last whole line.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isOutOfSpace } from '../base/disk-space.ts';
import { replaceFile } from '../base/replace-file.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { MANIFEST_FILE, type Manifest, MESSAGES_FILE } from './format.ts';

/** Bytes that wait for the disk above which a recorder reads no further messages. */
const HIGH_WATER_BYTES = 4 * 1024 * 1024;

/** Facts of the manifest beyond those that the writer knows. */
export type ManifestFacts = Omit<Manifest, 'complete' | 'files' | 'ended_at'>;

export class BundleWriter {
  readonly folder: string;
  readonly #file: FileHandle;
  readonly #hash = createHash('sha256');
  #waiting: string[] = [];
  #waitingChars = 0;
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #failed: HandfastError | undefined;
  #closing: Promise<void> | undefined;

  private constructor(folder: string, file: FileHandle) {
    this.folder = folder;
    this.#file = file;
  }

  /**
   * Starts a bundle in a folder that is missing or empty.
   * @throws usage when something is in it · disk_full, runtime_error
   */
  static async create(folder: string, facts: ManifestFacts): Promise<BundleWriter> {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if ((await readdir(folder)).length > 0) {
        throw fail('usage', `${folder} is not empty; record into a folder of its own`);
      }
      await replaceFile(join(folder, MANIFEST_FILE), textOf({ ...facts, complete: false, ended_at: null, files: {} }));
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND;
      return new BundleWriter(folder, await open(join(folder, MESSAGES_FILE), flags, 0o600));
    } catch (thrown) {
      throw writeError(folder, thrown);
    }
  }

  /** True when too many bytes wait for the disk: accept no more until {@link drained}. */
  get isBehind(): boolean {
    return this.#waitingChars > HIGH_WATER_BYTES;
  }

  /** The reason why it writes no more; undefined while it writes. */
  get failed(): HandfastError | undefined {
    return this.#failed;
  }

  /** Bytes of messages so far, waiting ones included. */
  get bytes(): number {
    return this.#bytes + this.#waitingChars;
  }

  /** Adds one line, without its line break. Never throws: a failure is in {@link failed}. */
  line(text: string): void {
    if (this.#failed !== undefined || this.#closing !== undefined) return;
    this.#waiting.push(text);
    this.#waitingChars += text.length + 1;
    this.#writing ??= this.#write();
  }

  /** Resolves when everything so far was written, or writing has failed. */
  async drained(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  /** Writes the rest and the manifest of a complete bundle. Fails as writing failed; calling it again returns the same promise. */
  finish(facts: ManifestFacts, { complete = true, endedAt = new Date().toISOString() } = {}): Promise<void> {
    this.#closing ??= this.#finish(facts, complete, endedAt);
    return this.#closing;
  }

  async #finish(facts: ManifestFacts, complete: boolean, endedAt: string | null): Promise<void> {
    await this.drained();
    try {
      if (this.#failed === undefined) await this.#file.sync();
    } finally {
      await this.#file.close();
    }
    if (this.#failed !== undefined) throw this.#failed;
    const files = { [MESSAGES_FILE]: { bytes: this.#bytes, sha256: this.#hash.digest('hex') } };
    try {
      await replaceFile(join(this.folder, MANIFEST_FILE), textOf({ ...facts, complete, ended_at: endedAt, files }));
    } catch (thrown) {
      throw writeError(this.folder, thrown);
    }
  }

  async #write(): Promise<void> {
    // Lines that are recorded in one turn leave in one write.
    await Promise.resolve();
    while (this.#waiting.length > 0 && this.#failed === undefined) {
      const bytes = Buffer.from(`${this.#waiting.join('\n')}\n`);
      this.#waiting = [];
      try {
        await writeAll(this.#file, bytes);
        this.#hash.update(bytes);
        this.#bytes += bytes.length;
      } catch (thrown) {
        this.#failed = writeError(this.folder, thrown);
        this.#waiting = [];
      }
      this.#waitingChars = this.#waiting.reduce((sum, line) => sum + line.length + 1, 0);
    }
    this.#writing = undefined;
  }
}

async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; ) from += (await file.write(bytes, from)).bytesWritten;
}

const textOf = (manifest: Manifest): string => `${JSON.stringify(manifest, undefined, 2)}\n`;

function writeError(folder: string, thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const why = (thrown as NodeJS.ErrnoException).code ?? String(thrown);
  return fail(
    isOutOfSpace(thrown) ? 'disk_full' : 'runtime_error',
    `the recording in ${folder} cannot be written (${why})`,
    {},
    thrown,
  );
}
