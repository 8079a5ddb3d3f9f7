/**
 * One answer of a provider while it streams: turns the SDK's parts into the parts of a round, and gathers the parts that are
 * only known, or only safe to emit, at the end.
 *
 * One for each attempt. A delta costs a few field accesses.
 */
import { parseBounded } from '../../../wire/depth.ts';
import { fail, HandfastError } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';
import type { FinishReason, ModelPart } from '../../rounds/round-model.ts';
import { keptFields, type PartRecord, type ProviderData } from './provider-data.ts';
import type { AnswerEnd, BlockDelta, BlockMark, CallMade, ProviderFields, StreamPart } from './provider-model.ts';
import { RawArguments } from './raw-arguments.ts';
import type { ToolNames } from './tool-names.ts';
import { usageOf } from './usage.ts';

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] };
type Block = Writable<Extract<PartRecord, { kind: 'text' | 'reasoning' }>> & { readonly id: string };
type CallBlock = Writable<Extract<PartRecord, { kind: 'call' }>> & { readonly call: CallMade };

const FINISH: Readonly<Record<AnswerEnd['finishReason']['unified'], FinishReason>> = {
  stop: 'stop',
  length: 'max_tokens',
  'content-filter': 'refusal',
  'tool-calls': 'tool_calls',
  error: 'other',
  interrupted: 'other',
  other: 'other',
};

/** Calls of one answer at most. */
const MAX_CALLS = 1_024;
/** Longest arguments of a call. */
const MAX_ARGUMENTS = 1_048_576;

export class Answer {
  /** True once output was passed on, which cannot be undone. */
  delivered = false;
  /** The provider's last event; undefined until it arrived. */
  end: AnswerEnd | undefined;
  readonly #names: ToolNames;
  readonly #blocks: (Block | CallBlock)[] = [];
  readonly #raw: RawArguments | undefined;
  /** Characters passed on so far, of each kind. */
  #text = 0;
  #reasoning = 0;
  #calls = 0;
  /** False when texts of several blocks came mixed: then their order is not known. */
  #inOrder = true;

  /** `raw` where the provider's package is known to hide arguments it cannot read. */
  constructor(names: ToolNames, raw: boolean) {
    this.#names = names;
    this.#raw = raw ? new RawArguments() : undefined;
  }

  /** Adds a part; returns the output to pass on at once. */
  take(part: StreamPart): ModelPart | undefined {
    switch (part.type) {
      case 'text-delta':
        return this.#delta('text', part);
      case 'reasoning-delta':
        return this.#delta('reasoning', part);
      case 'text-start':
      case 'text-end':
        this.#mark('text', part);
        return undefined;
      case 'reasoning-start':
      case 'reasoning-end':
        this.#mark('reasoning', part);
        return undefined;
      case 'tool-call':
        // A call that the provider runs itself was not asked for, and is not run here.
        if (!part.providerExecuted) this.#addCall(part);
        return undefined;
      case 'raw':
        this.#raw?.take(part.rawValue);
        return undefined;
      case 'finish':
        this.end = part;
        return undefined;
      default:
        return undefined;
    }
  }

  /**
   * Yields the parts that are passed on once the answer is complete: its calls, its usage, and its end. Calls come last because
   * an answer that breaks off may have made half of one.
   */
  *rest(provider: string, model: string): Generator<ModelPart> {
    const end = this.end as AnswerEnd;
    for (const block of this.#blocks) if (block.kind === 'call') yield this.#call(block.call);
    const usage = usageOf(end.usage, end.providerMetadata);
    if (usage !== undefined) yield { type: 'usage', usage };
    const providerData = this.#providerData(provider, model, end.providerMetadata);
    yield { type: 'finish', reason: FINISH[end.finishReason.unified], ...(providerData && { providerData }) };
  }

  #delta(kind: 'text' | 'reasoning', part: BlockDelta): ModelPart | undefined {
    const block = this.#block(kind, part.id);
    if (part.providerMetadata !== undefined) block.fields = keptFields(part.providerMetadata) ?? block.fields;
    if (part.delta === '') return undefined;
    const before = this.#length(kind);
    // Providers send each paragraph of their reasoning as a separate block and nothing between them.
    const gap = kind === 'reasoning' && block.start === block.end && before > 0 ? '\n\n' : '';
    if (block.start === block.end) block.start = before + gap.length;
    else if (block.end !== before) this.#inOrder = false;
    this.delivered = true;
    block.end = before + gap.length + part.delta.length;
    if (kind === 'text') {
      this.#text = block.end;
      return { type: 'answer', text: part.delta };
    }
    this.#reasoning = block.end;
    return { type: 'thought', text: gap + part.delta };
  }

  #addCall(call: CallMade): void {
    this.#calls += 1;
    if (this.#calls > MAX_CALLS) throw fail('provider_error', `the model made more than ${MAX_CALLS} calls at once`);
    this.#blocks.push({ kind: 'call', call });
  }

  #mark(kind: 'text' | 'reasoning', part: BlockMark): void {
    const block = this.#block(kind, part.id);
    if (part.providerMetadata !== undefined) block.fields = keptFields(part.providerMetadata) ?? block.fields;
  }

  /** Returns the block with this id, which is nearly always the newest. */
  #block(kind: 'text' | 'reasoning', id: string): Block {
    const there = this.#blocks.findLast((block): block is Block => block.kind === kind && block.id === id);
    if (there !== undefined) return there;
    const block: Block = { kind, id, start: 0, end: 0 };
    this.#blocks.push(block);
    return block;
  }

  #length(kind: 'text' | 'reasoning'): number {
    return kind === 'text' ? this.#text : this.#reasoning;
  }

  #call({ toolCallId, toolName, input }: CallMade): ModelPart {
    const name = this.#names.fromProvider(toolName);
    const raw = this.#raw?.of(toolCallId) ?? input;
    const read = readArguments(raw);
    return {
      type: 'call',
      callId: toolCallId,
      name,
      providerToolName: toolName,
      ...read,
      input: this.#names.inputFromProvider(name, read.input),
    };
  }

  #providerData(
    provider: string,
    model: string,
    ending: ProviderFields | undefined,
  ): Readonly<Record<string, unknown>> | undefined {
    if (!this.#inOrder) return undefined;
    const details = ending?.openrouter?.reasoning_details;
    // OpenRouter repeats all of its reasoning with each part; once, with the message, is enough.
    const fields =
      Array.isArray(details) && details.length > 0 ? { openrouter: { reasoning_details: details } } : undefined;
    const parts: PartRecord[] = this.#blocks.map((block) => {
      const given = block.kind === 'call' ? keptFields(block.call.providerMetadata) : block.fields;
      const stored = given && { fields: given };
      return block.kind === 'call'
        ? { kind: 'call', ...stored }
        : { kind: block.kind, start: block.start, end: block.end, ...stored };
    });
    const plain = parts.every((part) => part.kind !== 'reasoning' && part.fields === undefined);
    if (plain && fields === undefined) return undefined;
    return { provider, model, parts, ...(fields && { fields }) } satisfies ProviderData;
  }
}

type Arguments = Pick<Extract<ModelPart, { type: 'call' }>, 'input' | 'invalid'>;

/** Reads the arguments of a call. Nothing at all stands for no arguments, as several models have it. */
function readArguments(text: string): Arguments {
  if (text.trim() === '') return { input: {} };
  if (text.length > MAX_ARGUMENTS) return { input: {}, invalid: `they are longer than ${MAX_ARGUMENTS} characters` };
  let value: unknown;
  try {
    value = parseBounded(text);
  } catch (error) {
    if (error instanceof HandfastError) return { input: {}, invalid: `they are too large (${error.message})` };
    return { input: {}, invalid: `they are not JSON (${(error as Error).message})` };
  }
  if (!isObject(value)) {
    return { input: {}, invalid: 'they are not a JSON object' };
  }
  return { input: value as Record<string, unknown> };
}
