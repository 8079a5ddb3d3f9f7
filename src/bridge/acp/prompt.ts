/**
 * Converts a prompt of an editor to text, images and audio for `session.send`. Pure.
 *
 * A mention of a file stays where it was typed, as a link that a model can follow with its tools. Content of the file
 * that the editor sends comes after the prompt, so that the prompt reads as it was written.
 */
import { isUtf8 } from 'node:buffer';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ContentBlock } from '../../acp/sdk.ts';
import { leadsOut } from '../../base/is-inside.ts';
import type { ImageReference } from '../../protocol/session-types.ts';
import { isAudio } from '../../protocol/session-words.ts';
import { fail } from '../../wire/errors.ts';

/** A prompt as sessions take it. */
export interface EditorPrompt {
  readonly text: string;
  readonly images: readonly (ImageReference & { readonly data_url: string })[];
  /** Parts that cannot be given to a model, a line each, for the user; the text names them too. */
  readonly leftOut: readonly string[];
}

type Resource = Extract<ContentBlock, { type: 'resource' }>['resource'];

/**
 * Reads the blocks of a prompt.
 *
 * @param cwd the session's folder: files in it are named from there
 * @throws schema_violation for blocks that the protocol does not have
 */
export function promptOf(blocks: readonly ContentBlock[], cwd: string): EditorPrompt {
  let text = '';
  const contents: string[] = [];
  const images: EditorPrompt['images'][number][] = [];
  const leftOut: string[] = [];
  const addAttachment = (mime_type: string, data: string, uri: string | null | undefined): void => {
    const path = uri ? placeOf(uri, cwd) : `${isAudio(mime_type) ? 'audio' : 'image'}-${images.length + 1}`;
    images.push({ path, mime_type, data_url: `data:${mime_type};base64,${data}` });
  };
  const addResource = ({ uri, mimeType, ...content }: Resource): void => {
    const place = placeOf(uri, cwd);
    text += linkTo(nameIn(place), place);
    if ('text' in content) contents.push(contentOf(place, content.text));
    else if (mimeType?.startsWith('image/') || (mimeType && isAudio(mimeType)))
      addAttachment(mimeType, content.blob, uri);
    else {
      const bytes = Buffer.from(content.blob, 'base64');
      if (isUtf8(bytes) && !bytes.includes(0)) return void contents.push(contentOf(place, bytes.toString('utf8')));
      const line = `${place} is not included: ${mimeType ?? 'its type'} (${bytes.length} bytes) is neither text, an image nor audio`;
      leftOut.push(line);
      contents.push(`[${line}]`);
    }
  };
  for (const block of blocks) {
    switch (block.type) {
      case 'text':
        text += block.text;
        break;
      case 'image':
        addAttachment(block.mimeType, block.data, block.uri);
        break;
      case 'audio':
        addAttachment(block.mimeType, block.data, undefined);
        break;
      case 'resource_link':
        text += linkTo(block.title ?? block.name, placeOf(block.uri, cwd));
        break;
      case 'resource':
        addResource(block.resource);
        break;
      default:
        throw fail('schema_violation', `prompts accept no blocks of type ${(block as ContentBlock).type}`, {
          field: 'prompt',
        });
    }
  }
  return { text: [text.trim(), ...contents].filter((part) => part !== '').join('\n\n'), images, leftOut };
}

const linkTo = (name: string, place: string): string => `[@${name}](${/[\s()]/.test(place) ? `<${place}>` : place})`;

const nameIn = (place: string): string => place.split('/').findLast((part) => part !== '') ?? place;

/** Returns the content between marks that do not occur in it. */
function contentOf(place: string, text: string): string {
  let tag = 'content';
  while (text.includes(`</${tag}>`)) tag += '-of';
  return `<${tag} of=${JSON.stringify(place)}>\n${text}\n</${tag}>`;
}

/** Returns a file in the session's folder as a path from there, with the lines it names; anything else unchanged. */
function placeOf(uri: string, cwd: string): string {
  if (!uri.startsWith('file:')) return uri;
  try {
    const url = new URL(uri);
    const path = fileURLToPath(url);
    const inside = relative(cwd, path);
    return (inside === '' || leadsOut(inside) ? path : inside) + url.hash;
  } catch {
    return uri;
  }
}
