/**
 * Reads a bundle: the folder that a recorder wrote, or the one file that an export made of it. Everything is checked
 * before it is used: sizes, hashes, the shape of every line. Only two names are ever opened, and no link is followed.
 */
import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { readBounded } from '../base/bounded-file.ts';
import { counted } from '../base/counted.ts';
import { parseNested } from '../wire/depth.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { defaultVolatile, VolatilePaths } from './compare.ts';
import {
  badRecording,
  checkManifest,
  type Entry,
  EntryChecker,
  MANIFEST_FILE,
  MAX_LINE_BYTES,
  MAX_MANIFEST_BYTES,
  MAX_MESSAGES_BYTES,
  type Manifest,
  MESSAGES_FILE,
  type Recording,
} from './format.ts';
import { protocolIn } from './timeline.ts';

/** Deepest message of a bundle: that of agents, which trust their hosts more than hosts trust agents, and its envelope. */
const MAX_DEPTH = 1024 + 8;

const NEWLINE = 10;

/**
 * Reads the recording in a folder or a file. The last line of an incomplete bundle may be cut; it is left out.
 * @throws not_found when the path does not exist · recording.invalid with the problem
 */
export function readBundle(path: string): Recording {
  const { manifest, messages } = rawBundle(path);
  const entries = entriesOf(manifest, messages);
  return { manifest: withProtocol(manifest, entries), entries };
}

/**
 * Completes the manifest of a recorder that was killed: it was written before a message had shown the protocol, and
 * with it the volatile fields.
 */
function withProtocol(manifest: Manifest, entries: readonly Entry[]): Manifest {
  if (manifest.protocol !== 'unknown') return manifest;
  const protocol = protocolIn({ manifest, entries });
  const usual = defaultVolatile(protocol);
  const { client, host } = manifest.volatile;
  return { ...manifest, protocol, volatile: { client: [...usual.client, ...client], host: [...usual.host, ...host] } };
}

/** A bundle whose manifest was checked, and whose messages match its hash. */
export interface RawBundle {
  readonly manifest: Manifest;
  readonly messages: Buffer;
}

/** Reads both parts of a bundle; the content of the lines is not checked yet. */
export function rawBundle(path: string): RawBundle {
  let isFolder: boolean;
  try {
    isFolder = lstatSync(path).isDirectory();
  } catch (cause) {
    throw fail('not_found', `there is no recording at ${path}`, {}, cause);
  }
  const { head, messages } = isFolder ? fromFolder(path) : fromFile(path);
  let value: unknown;
  try {
    value = parseNested(head.toString('utf8'), MAX_DEPTH);
  } catch (cause) {
    throw badRecording('the manifest is not JSON', undefined, cause);
  }
  const manifest = checkManifest(value);
  new VolatilePaths([...manifest.volatile.client, ...manifest.volatile.host]);
  const facts = manifest.files[MESSAGES_FILE];
  if (facts !== undefined) {
    if (facts.bytes !== messages.length)
      throw badRecording(
        `${MESSAGES_FILE} has ${counted(messages.length, 'byte')}, and the manifest says ${facts.bytes}`,
      );
    if (createHash('sha256').update(messages).digest('hex') !== facts.sha256)
      throw badRecording(`${MESSAGES_FILE} is not what its hash in the manifest says: it was changed`);
  }
  return { manifest, messages };
}

function fromFolder(folder: string): { head: Buffer; messages: Buffer } {
  return {
    head: bytesOf(join(folder, MANIFEST_FILE), MANIFEST_FILE, MAX_MANIFEST_BYTES),
    messages: bytesOf(join(folder, MESSAGES_FILE), MESSAGES_FILE, MAX_MESSAGES_BYTES),
  };
}

/** Reads an exported bundle: its first line is the manifest. */
function fromFile(path: string): { head: Buffer; messages: Buffer } {
  const bytes = bytesOf(path, path, MAX_MANIFEST_BYTES + MAX_MESSAGES_BYTES);
  const end = bytes.subarray(0, MAX_MANIFEST_BYTES).indexOf(NEWLINE);
  if (end < 0) throw badRecording('its first line is no manifest');
  return { head: bytes.subarray(0, end), messages: bytes.subarray(end + 1) };
}

function bytesOf(path: string, name: string, most: number): Buffer {
  const read = readBounded(path, most);
  if (read.kind === 'file') return read.bytes;
  throw badRecording(read.kind === 'absent' ? `${name} is missing` : `${name} ${read.reason}`);
}

/** Returns the entries of messages that match their hash. */
export function entriesOf(manifest: Manifest, messages: Buffer): Entry[] {
  const checker = new EntryChecker();
  const entries: Entry[] = [];
  for (let from = 0; from < messages.length; ) {
    const end = messages.indexOf(NEWLINE, from);
    // The last line of a recorder that was killed.
    if (end < 0 && !manifest.complete) break;
    const line = entries.length + 1;
    if (end < 0) throw badRecording('the last line is cut', line);
    if (end - from > MAX_LINE_BYTES) throw badRecording('a line is too long', line);
    entries.push(checker.check(decoded(messages.subarray(from, end), line)));
    from = end + 1;
  }
  if (manifest.complete) {
    const { connections, messages: count } = checker;
    if (connections !== manifest.connections)
      throw badRecording(`it has ${counted(connections, 'connection')}, and the manifest says ${manifest.connections}`);
    if (count !== manifest.messages)
      throw badRecording(`it has ${counted(count, 'message')}, and the manifest says ${manifest.messages}`);
  }
  return entries;
}

function decoded(bytes: Buffer, line: number): unknown {
  try {
    return parseNested(new TextDecoder('utf-8', { fatal: true }).decode(bytes), MAX_DEPTH);
  } catch (cause) {
    if (cause instanceof HandfastError) throw badRecording('a line is nested too deeply', line, cause);
    throw badRecording(cause instanceof SyntaxError ? 'a line is not JSON' : 'a line is not UTF-8', line, cause);
  }
}
