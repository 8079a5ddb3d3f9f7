/**
 * One turn of an agent of the Agent Client Protocol. It reports text and tool calls as progress and requests as questions, and
 * queues input that arrives meanwhile as the next prompt.
 */
import { CANCELLED, filledIn, formSchema, optionOf, promptTokens } from '../../../acp/answers.ts';
import type {
  CreateElicitationRequest,
  CreateElicitationResponse,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from '../../../acp/sdk.ts';
import { inputOf, merged, nameOf, readFields, risksOf, type ToolFields } from '../../../acp/tool-facts.ts';
import type { Usage } from '../../../protocol/fleet.ts';
import { askWhileRunning } from '../ask.ts';
import type { AcpConfig } from '../config.ts';
import type { ExecutorContext, ExecutorTask } from '../executor.ts';
import { noteOf } from '../programs/cli.ts';
import { type Frame, objectOf, textOf } from '../programs/frame.ts';
import { ReplyText } from '../reply-text.ts';
import { UNKNOWN_USAGE } from '../usage.ts';

/** Limit of tracked tool calls: calls that the agent never finishes must not accumulate. */
const MAX_CALLS = 1000;
const MAX_PENDING = 64;

export class AcpTurn {
  /** Its reply so far. */
  readonly reply = new ReplyText();
  readonly #task: ExecutorTask;
  readonly #context: ExecutorContext;
  readonly #permissions: NonNullable<AcpConfig['permissions']>;
  readonly #calls = new Map<string, ToolFields>();
  readonly #pending: string[] = [];
  /** A tool ran since the last text, so the next text starts a new paragraph. */
  #newParagraph = false;
  #usage: Usage = UNKNOWN_USAGE;
  #ended = false;

  constructor(task: ExecutorTask, context: ExecutorContext, permissions: NonNullable<AcpConfig['permissions']>) {
    this.#task = task;
    this.#context = context;
    this.#permissions = permissions;
  }

  get usage(): Usage {
    return this.#usage;
  }

  /** Handles one `session/update`. Never throws for an agent's message. */
  update(value: unknown): void {
    const update = objectOf(value) ?? {};
    const { events } = this.#context;
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
        this.#addText(objectOf(update.content));
        return events.progress('running');
      case 'agent_thought_chunk':
        return events.progress('running');
      case 'tool_call':
      case 'tool_call_update':
        return this.#tool(update as ToolFields);
      case 'plan':
        return this.#plan(update.entries);
      default:
        // Every other update still shows that the agent is alive.
        events.progress('running');
    }
  }

  /** Adds to the cost of the session, US dollars. */
  cost(addedUsd: number): void {
    this.#usage = { ...this.#usage, cost_usd: (this.#usage.cost_usd ?? 0) + addedUsd };
  }

  /** Handles the end of a prompt: adds its tokens, where the agent reports them. */
  prompted(response: PromptResponse): void {
    this.#newParagraph = true;
    const tokens = promptTokens(response);
    if (tokens === undefined) return;
    const { input = 0, output = 0, reasoning = 0, cache_read = 0, cache_write = 0, cost_usd } = this.#usage;
    this.#usage = {
      source: 'provider',
      input: input + tokens.input,
      output: output + tokens.output,
      reasoning: reasoning + tokens.thought,
      cache_read: cache_read + tokens.cachedRead,
      cache_write: cache_write + tokens.cachedWrite,
      ...(cost_usd !== undefined && { cost_usd }),
    };
    this.#context.events.usage(this.#usage);
  }

  /** Queues input until the agent has ended its prompt, because an agent accepts none before. */
  steer(text: string): 'queued' | 'rejected' {
    if (this.#ended || this.#context.signal.aborted || this.#pending.length >= MAX_PENDING) return 'rejected';
    this.#pending.push(text);
    return 'queued';
  }

  /** Returns the next input; undefined: none, and no more is accepted. */
  next(): string | undefined {
    const text = this.#pending.length === 0 ? undefined : this.#pending.splice(0).join('\n\n');
    if (text === undefined) this.#ended = true;
    return text;
  }

  /** Ends the input: the turn accepts no more. */
  end(): void {
    this.#ended = true;
  }

  /** Answers a request for permission by policy, or by asking the user. */
  async permission(request: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const fields = merged(
      this.#calls.get(request.toolCall.toolCallId) ?? {},
      readFields(request.toolCall as ToolFields),
    );
    const allowed = await this.#allowed(fields);
    if (this.#context.signal.aborted) return CANCELLED;
    return optionOf(request.options, allowed ? ['allow_once', 'allow_always'] : ['reject_once', 'reject_always']);
  }

  /** Answers a form by asking the user. */
  async elicit(request: CreateElicitationRequest): Promise<CreateElicitationResponse> {
    const schema = formSchema(request);
    if (schema === undefined) return { action: 'cancel' };
    const { allowed, content } = await askWhileRunning(this.#context, {
      kind: 'question',
      title: noteOf(request.message) ?? 'a question',
      schema,
    });
    if (this.#context.signal.aborted) return { action: 'cancel' };
    return allowed ? filledIn(content) : { action: 'decline' };
  }

  async #allowed(fields: ToolFields): Promise<boolean> {
    const risks = risksOf(fields.kind ?? undefined);
    if (this.#permissions === 'reject') return false;
    if (this.#permissions === 'allow') {
      // The meaning of unknown kinds is unknown.
      const harmless = risks.length > 0 && risks.every((risk) => risk === 'reads' || risk === 'network');
      return this.#task.access === 'write' || harmless;
    }
    const name = textOf(nameOf(fields)) || 'tool';
    const { allowed } = await askWhileRunning(this.#context, {
      kind: 'tool',
      title: noteOf(fields.title) ?? name,
      tool: { name, input: inputOf(fields) },
      risks,
    });
    return allowed;
  }

  #addText(content: Frame | undefined): void {
    if (content?.type !== 'text' || typeof content.text !== 'string' || content.text === '') return;
    // A result block at the end of the reply must start on its own line.
    this.reply.add(content.text, this.#newParagraph && !this.reply.atLineStart ? '\n\n' : '');
    this.#newParagraph = false;
  }

  #tool(update: ToolFields): void {
    const { events } = this.#context;
    this.#newParagraph = true;
    const { toolCallId: id } = update;
    if (typeof id !== 'string') return events.progress('running');
    // The output of a call is not needed here and may be large.
    const { content, rawOutput, ...fields } = readFields(update);
    const known = merged(this.#calls.get(id) ?? {}, fields);
    if (known.status === 'completed' || known.status === 'failed') this.#calls.delete(id);
    else if (this.#calls.size < MAX_CALLS) this.#calls.set(id, known);
    events.progress('running', noteOf(known.title) ?? noteOf(nameOf(known)));
  }

  #plan(value: unknown): void {
    const entries = (Array.isArray(value) ? value : []).map(objectOf).filter((entry) => entry !== undefined);
    const done = entries.filter(({ status }) => status === 'completed').length;
    const now = entries.find(({ status }) => status === 'in_progress');
    const percent = entries.length === 0 ? undefined : Math.floor((100 * done) / entries.length);
    this.#context.events.progress('running', noteOf(now?.content), percent);
  }
}
