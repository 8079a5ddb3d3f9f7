/**
 * An agent's tool call in Handfast's terms: its name, its input, its risks, its result. Pure.
 */
import { boundedValue } from '../wire/bounded-value.ts';
import { isObject } from '../wire/json.ts';
import type { ContentBlock, ToolCallContent, ToolKind } from './sdk.ts';

/** The members of `tool_call`, `tool_call_update` and a permission request that are looked at; all may be missing. */
export interface ToolFields {
  readonly toolCallId?: string;
  readonly title?: string | null;
  readonly name?: string | null;
  readonly kind?: ToolKind | null;
  readonly status?: string | null;
  readonly content?: readonly ToolCallContent[] | null;
  readonly locations?: readonly { readonly path: string }[] | null;
  readonly rawInput?: unknown;
  readonly rawOutput?: unknown;
}

/** Longest input or result, in bytes of JSON. */
const MAX_VALUE_BYTES = 64 * 1024;

/** Kinds of the protocol, and the risk flags that policies know. */
const RISKS: Readonly<Record<string, readonly string[]>> = {
  read: ['reads'],
  search: ['reads'],
  think: ['reads'],
  edit: ['writes'],
  move: ['writes'],
  delete: ['writes', 'destructive'],
  execute: ['exec'],
  fetch: ['network'],
};

/** Returns the risks of calls of a kind. Unknown kinds declare no risks, which policies treat as any risk. */
export const risksOf = (kind: string | undefined): readonly string[] => RISKS[kind ?? ''] ?? [];

/** Returns the fields of an update in reliable types: lists are lists. */
export function readFields(update: ToolFields): ToolFields {
  const { content, locations, ...others } = update;
  const objects = (value: unknown): unknown[] | undefined =>
    Array.isArray(value) ? value.filter((one) => typeof one === 'object' && one !== null) : undefined;
  return {
    ...others,
    content: objects(content)?.filter((part) => (part as ToolCallContent).type !== 'content' || hasBlock(part)),
    locations: objects(locations)?.filter((place) => typeof (place as { path?: unknown }).path === 'string'),
  } as ToolFields;
}

const hasBlock = (part: unknown): boolean => isObject((part as { content?: unknown }).content);

/**
 * Returns the fields of a call after an update: a given field replaces the known one; of the input, each given member
 * does.
 */
export function merged(known: ToolFields, update: ToolFields): ToolFields {
  const given = Object.fromEntries(
    Object.entries(update).filter(([, value]) => value !== undefined && value !== null),
  ) as ToolFields;
  const rawInput =
    isObject(known.rawInput) && isObject(update.rawInput)
      ? { ...known.rawInput, ...update.rawInput }
      : (update.rawInput ?? known.rawInput);
  return { ...known, ...given, rawInput };
}

/** Returns the tool's name if the agent sends it, else the kind of tool: titles change from call to call. */
export const nameOf = ({ name, kind }: ToolFields): string => name || kind || 'other';

/**
 * Returns the input as an object. It never holds less than the agent sent: remembered answers must distinguish calls by
 * it.
 */
export function inputOf({ rawInput, locations, title }: ToolFields): Readonly<Record<string, unknown>> {
  const input = boundedValue(rawInput ?? {}, MAX_VALUE_BYTES).value;
  const members: Record<string, unknown> = isObject(input) ? { ...input } : { input };
  const hasPath = ['path', 'file_path', 'filePath', 'abs_path', 'command', 'argv'].some((member) => member in members);
  if (!hasPath && locations?.length === 1) members.path = locations[0]?.path;
  if (Object.keys(members).length === 0 && title) members.title = title;
  return members;
}

/** Returns the text among the contents of a call. */
export function textOf(content: readonly ToolCallContent[] | null | undefined): string {
  return (content ?? [])
    .flatMap((part) => (part.type === 'content' ? [wordsOf(part.content)] : []))
    .filter((text) => text !== '')
    .join('\n');
}

/**
 * Returns the text that can be shown for a content block: an embedded resource's text; the name of a block that is not
 * text.
 */
export function wordsOf(content: ContentBlock | undefined): string {
  switch (content?.type) {
    case 'text':
      return typeof content.text === 'string' ? content.text : '';
    case 'resource_link':
      return `[${content.title ?? content.name}](${content.uri})`;
    case 'resource':
      return 'text' in content.resource ? content.resource.text : `[${content.resource.uri}]`;
    case 'image':
    case 'audio':
      return `[${content.type}: ${content.mimeType}]`;
    default:
      return '';
  }
}

/** A change of a file, as results and requests have it. */
export interface FileDiff {
  readonly path: string;
  /** The replaced text; null for a whole file. */
  readonly old_text: string | null;
  readonly new_text: string;
}

/** Returns the changes of files among the contents of a call. */
export const diffsOf = (content: ToolFields['content']): FileDiff[] =>
  (content ?? []).flatMap((part) =>
    part.type === 'diff' ? [{ path: part.path, old_text: part.oldText ?? null, new_text: part.newText }] : [],
  );

/** Returns the changes of files of a call in the form that a request shows; `whole` if nothing is left out. */
export function shownDiffs({ content }: ToolFields): { readonly shown: unknown; readonly whole: readonly FileDiff[] } {
  const diffs = diffsOf(content);
  const { value, cut } = boundedValue(diffs, MAX_VALUE_BYTES);
  return { shown: value, whole: cut ? [] : diffs };
}

/** Returns the outcome of a call: its text, its changes of files, and the agent's additions for machines. */
export function resultOf({ content, rawOutput, locations }: ToolFields): unknown {
  const text = textOf(content);
  const diffs = diffsOf(content);
  const paths = (locations ?? []).map(({ path }) => path);
  const result = {
    ...(text !== '' && { text }),
    ...(diffs.length > 0 && { diffs }),
    ...(paths.length > 0 && { paths }),
    ...(rawOutput !== undefined && rawOutput !== null && { output: rawOutput }),
  };
  return boundedValue(result, MAX_VALUE_BYTES).value;
}
