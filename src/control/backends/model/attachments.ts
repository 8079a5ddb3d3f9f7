/**
 * Images and audio of a conversation as a provider takes them: the type by the bytes and not by the label, and within the
 * limits that the provider's reference names. An attachment that does not fit is left out with the reason; of too many, the
 * oldest give way.
 *
 * Pure.
 */
import { SNIFFED_BYTES, type SniffedMedia, sniffedMedia } from '../../../base/media-type.ts';
import type { Image } from '../../../protocol/session-types.ts';
import { AUDIO_OF_PROVIDERS, isAudio } from '../../../protocol/session-words.ts';

interface MediaRules {
  readonly types: readonly string[];
  /** Characters of base64 of one attachment, and of all. */
  readonly maxChars: number;
  readonly maxTotalChars: number;
  /** Pixels of the longer side. */
  readonly maxSide: number;
  readonly maxImages: number;
  /** Limit of a request with more than `above` images. */
  readonly many?: { readonly above: number; readonly maxSide: number };
}

const MEBI = 1024 * 1024;
const COMMON_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const UNLIMITED = Number.POSITIVE_INFINITY;
/** Characters of base64 of the images of earlier turns, 8 MiB of bytes: a request is written whole, in each round. */
const MAX_EARLIER_CHARS = Math.ceil((8 * MEBI) / 3) * 4;

const ANTHROPIC: MediaRules = {
  types: COMMON_TYPES,
  maxChars: 5 * MEBI,
  // A part of the request of at most 32 MB, beside the conversation.
  maxTotalChars: 28 * MEBI,
  maxSide: 8_000,
  maxImages: 100,
  many: { above: 20, maxSide: 2_000 },
};
const OPENAI: MediaRules = {
  types: COMMON_TYPES,
  maxChars: 27 * MEBI,
  maxTotalChars: 48 * MEBI,
  maxSide: UNLIMITED,
  maxImages: 500,
};
const GOOGLE: MediaRules = {
  types: ['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'],
  maxChars: 18 * MEBI,
  maxTotalChars: 18 * MEBI,
  maxSide: UNLIMITED,
  maxImages: 3_000,
};
const RULES: Readonly<Record<string, MediaRules>> = {
  anthropic: ANTHROPIC,
  google: GOOGLE,
  antigravity: GOOGLE,
};

/** Returns the rules for a model. OpenRouter forwards requests to the provider of the model, which its name begins with. */
function rulesOf(provider: string, model: string): MediaRules {
  return (provider === 'openrouter' ? RULES[model.split('/')[0] as string] : RULES[provider]) ?? OPENAI;
}

/** True where models of a provider may be given audio of a type. */
export const takesAudio = (provider: string, mimeType: string): boolean =>
  AUDIO_OF_PROVIDERS[provider]?.includes(mimeType) === true;

/** Form in which an attachment goes out: its type, or the reason why it is left out. */
export type Admission = { readonly type: string } | { readonly reason: string };

const TOO_LARGE: Admission = { reason: 'the images of earlier turns are too large for one request' };

const sniffed = new WeakMap<Image, SniffedMedia | 'unknown'>();

/**
 * Decides how each attachment of a conversation goes out. `images`: the oldest first. Attachments of earlier turns have a
 * separate limit.
 */
export function admissions(
  images: readonly Image[],
  provider: string,
  model: string,
  earlier: ReadonlySet<Image>,
): ReadonlyMap<Image, Admission> {
  const rules = rulesOf(provider, model);
  const found = new Map<Image, Admission>();
  let total = 0;
  let earlierTotal = 0;
  const pictures: Image[] = [];
  for (const image of images.toReversed()) {
    const isEarlier = earlier.has(image);
    // Once the limit is passed, older images are left out unread: their files have megabytes.
    const isTooMuch = isEarlier && earlierTotal > MAX_EARLIER_CHARS;
    const admission = isTooMuch ? TOO_LARGE : ofItself(image, provider, rules);
    found.set(image, admission);
    if ('reason' in admission) continue;
    const chars = dataOf(image).length;
    if (isEarlier) earlierTotal += chars;
    if (isEarlier && earlierTotal > MAX_EARLIER_CHARS) {
      found.set(image, TOO_LARGE);
      continue;
    }
    total += chars;
    const isPicture = !isAudio(admission.type);
    if (total > rules.maxTotalChars || (isPicture && pictures.length === rules.maxImages)) {
      found.set(image, { reason: `${provider} takes no more attachments in one request` });
    } else if (isPicture) pictures.push(image);
  }
  const { many } = rules;
  if (many === undefined || pictures.length <= many.above) return found;
  for (const image of pictures) {
    const side = sideOf(image);
    if (side <= many.maxSide) continue;
    const reason = `it has ${side} pixels on a side; ${provider} takes ${many.maxSide} in a request with more than ${many.above} images`;
    found.set(image, { reason });
  }
  return found;
}

/** Returns the base64, without a `data:` prefix. */
export const dataOf = ({ dataUrl }: Image): string => dataUrl.slice(dataUrl.indexOf(',') + 1);

function ofItself(image: Image, provider: string, rules: MediaRules): Admission {
  const data = dataOf(image);
  const type = typeOf(image);
  if (data === '') return { reason: 'it is empty' };
  if (type === undefined) return { reason: `its bytes are not of the type ${image.mimeType}` };
  const isTaken = isAudio(type) ? takesAudio(provider, type) : rules.types.includes(type);
  if (!isTaken) return { reason: `${provider} is given no ${type}` };
  if (data.length > rules.maxChars) {
    return { reason: `it has ${mebibytes(data.length)} MiB in base64; ${provider} takes ${mebibytes(rules.maxChars)}` };
  }
  const side = sideOf(image);
  if (side > rules.maxSide) return { reason: `it has ${side} pixels on a side; ${provider} takes ${rules.maxSide}` };
  return { type };
}

/** Returns the type by the bytes. Audio of a kind that cannot be recognised keeps its label. */
function typeOf(image: Image): string | undefined {
  const known = mediaOf(image);
  const label = image.mimeType.toLowerCase();
  if (known === 'unknown') return isAudio(label) ? label : undefined;
  // The first bytes of AAC and of other MPEG audio look alike.
  return isAudio(label) && known.type === 'audio/aac' ? label : known.type;
}

const sideOf = (image: Image): number => {
  const known = mediaOf(image);
  return known === 'unknown' ? 0 : Math.max(known.width ?? 0, known.height ?? 0);
};

function mediaOf(image: Image): SniffedMedia | 'unknown' {
  let known = sniffed.get(image);
  if (known === undefined) {
    const head = dataOf(image).slice(0, Math.ceil(SNIFFED_BYTES / 3) * 4);
    known = sniffedMedia(Buffer.from(head, 'base64')) ?? 'unknown';
    sniffed.set(image, known);
  }
  return known;
}

const mebibytes = (bytes: number): string => (Math.round((bytes / MEBI) * 10) / 10).toFixed(1);
