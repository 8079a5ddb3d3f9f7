/**
 * Images and audio in the result of a tool, as the Model Context Protocol has them: blocks of content with base64. The model
 * gets them as attachments, and a note in the result stands for each. As texts they would be cut, and cost far more. Pure.
 */
import { plainBase64 } from '../../base/base64.ts';
import { evictOldest } from '../../base/evict-oldest.ts';
import { sniffedMedia } from '../../base/media-type.ts';
import { strictText } from '../../base/strict-text.ts';
import type { CallEvent } from '../../connection/call.ts';
import type { Image } from '../../protocol/session-types.ts';
import { AUDIO_TYPES, isAudio, markOf } from '../../protocol/session-words.ts';
import { isObject } from '../../wire/json.ts';

/** Maximum number of attachments of one result, and bytes of each: the limits of a prompt. */
const MAX_ATTACHMENTS = 16;
const MAX_BYTES = 8 * 1024 * 1024;
/** Maximum number of unfinished artifacts of a call whose names are remembered. */
const MAX_PIECES = 64;

/** A result without its attachments, and these. */
export interface ResultMedia {
  readonly value: unknown;
  readonly images: readonly Image[];
}

/** Takes the attachments out of a result; `already`: attachments that came beside it. */
export function resultMedia(value: unknown, already: readonly Image[] = []): ResultMedia {
  if (!isObject(value) || !Array.isArray(value.content)) return { value, images: already };
  const { blocks, images } = contentMedia(value.content, already);
  return { value: images === already ? value : { ...value, content: blocks }, images };
}

/** Takes the attachments out of blocks of content. */
export function contentMedia(
  content: readonly unknown[],
  already: readonly Image[] = [],
): { readonly blocks: readonly unknown[]; readonly images: readonly Image[] } {
  let images = already;
  const blocks = content.map((block) => {
    const media = mediaOf(block);
    if (media === undefined) return readable(block);
    const { type, mimeType, data } = media;
    const known = { type, mimeType };
    const byteSize = bytesIn(data);
    if (byteSize > MAX_BYTES) return { ...known, note: `left out: it has ${byteSize} bytes, more than ${MAX_BYTES}` };
    if (images.length >= MAX_ATTACHMENTS)
      return { ...known, note: `left out: a result has ${MAX_ATTACHMENTS} attachments at most` };
    const image = attachment(mimeType, data, images.length);
    images = [...images, image];
    return { ...known, mimeType: image.mimeType, note: `${markOf(image.mimeType, images.length)} of this result` };
  });
  return { blocks, images };
}

/** Collects the attachments among the artifacts of a call, within the limits of a result. */
export class ArtifactMedia {
  readonly images: Image[] = [];
  /** Names of artifacts that come in pieces: none of these is an attachment. */
  readonly #pieces = new Set<unknown>();

  add({ name, mime, chunk, final }: CallEvent['data']): void {
    if (final === false) {
      evictOldest(this.#pieces.add(name), MAX_PIECES);
      return;
    }
    if (this.#pieces.delete(name) || this.images.length === MAX_ATTACHMENTS || !isMedia(mime)) return;
    const data = base64Of(chunk);
    if (data !== undefined && bytesIn(data) <= MAX_BYTES) this.images.push(attachment(mime, data, this.images.length));
  }
}

/** Makes an attachment with the type of its bytes. */
function attachment(mimeType: string, data: string, number: number): Image {
  const given = mimeType.trim().toLowerCase();
  const label =
    given === 'image/jpg' ? 'image/jpeg' : ((Object.hasOwn(AUDIO_TYPES, given) ? AUDIO_TYPES[given] : given) as string);
  const type = isAudio(label) ? label : (sniffedMedia(Buffer.from(data.slice(0, 1_024), 'base64'))?.type ?? label);
  return {
    path: `${isAudio(type) ? 'audio' : 'image'} ${number + 1} of a result`,
    mimeType: type,
    dataUrl: `data:${type};base64,${data}`,
    byteSize: bytesIn(data),
  };
}

/** Counts the bytes of base64, padding included. */
const bytesIn = (data: string): number => Math.floor((data.length * 3) / 4);

/** True for the types of attachments. */
const isMedia = (mimeType: unknown): mimeType is string =>
  typeof mimeType === 'string' && /^(?:image|audio)\//i.test(mimeType.trim());

interface Media {
  readonly type: string;
  readonly mimeType: string;
  readonly data: string;
}

/** Returns the attachment of a block: of a block `image` or `audio`, or of an embedded resource with a media type of these. */
function mediaOf(block: unknown): Media | undefined {
  if (!isObject(block)) return undefined;
  const { type, resource } = block;
  if (type === 'resource' && isObject(resource) && isMedia(resource.mimeType)) {
    const data = base64Of(resource.blob);
    return data === undefined ? undefined : { type: 'resource', mimeType: resource.mimeType, data };
  }
  if (type !== 'image' && type !== 'audio') return undefined;
  const data = base64Of(block.data);
  const mimeType = isMedia(block.mimeType) ? block.mimeType : type === 'image' ? 'image/png' : 'audio/wav';
  return data === undefined ? undefined : { type, mimeType, data };
}

/** Returns a block as the model reads it: bytes of an embedded resource as text, or left out where they are no text. */
function readable(block: unknown): unknown {
  if (!isObject(block) || block.type !== 'resource' || !isObject(block.resource)) return block;
  const { blob, ...resource } = block.resource;
  const data = resource.text === undefined ? base64Of(blob) : undefined;
  if (data === undefined) return block;
  const text = bytesIn(data) > MAX_BYTES ? undefined : textIn(Buffer.from(data, 'base64'));
  const note = `left out: ${Buffer.byteLength(data, 'base64')} bytes that are no text`;
  return { ...block, resource: { ...resource, ...(text === undefined ? { note } : { text }) } };
}

/** Returns the text that bytes are in UTF-8; undefined for others. */
function textIn(bytes: Buffer): string | undefined {
  const text = strictText(bytes)?.replace(/^\ufeff/, '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: texts have none but these.
  return text === undefined || /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? undefined : text;
}

/** Returns base64 in its plain form; undefined for another value, and for an empty one. */
const base64Of = (given: unknown): string | undefined => (typeof given === 'string' && plainBase64(given)) || undefined;
