/**
 * One turn of an agent of the Agent Client Protocol: its text and tool calls as progress, its requests as questions, and input
 * that arrives meanwhile as a prompt that follows. Made by `acp-conversation.ts`.
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

/** Calls that run at once; what an agent forgets to finish must not add up. */
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
  /** A tool ran since the last text: the next text is another paragraph. */
  #apart = false;
  #usage: Usage = UNKNOWN_USAGE;
  #over = false;

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
        this.#say(objectOf(update.content));
        return events.progress('running');
      case 'agent_thought_chunk':
        return events.progress('running');
      case 'tool_call':
      case 'tool_call_update':
        return this.#tool(update as ToolFields);
      case 'plan':
        return this.#plan(update.entries);
      default:
        // Alive, whatever the update holds.
        events.progress('running');
    }
  }

  /** Cost of the session went up by this much. */
  cost(addedUsd: number): void {
    this.#usage = { ...this.#usage, cost_usd: (this.#usage.cost_usd ?? 0) + addedUsd };
  }

  /** A prompt has ended: its tokens, where the agent reports them. */
  prompted(response: PromptResponse): void {
    this.#apart = true;
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

  /** Stores more input until the agent has ended its prompt; it accepts none before. */
  steer(text: string): 'queued' | 'rejected' {
    if (this.#over || this.#context.signal.aborted || this.#pending.length >= MAX_PENDING) return 'rejected';
    this.#pending.push(text);
    return 'queued';
  }

  /** The next input; undefined: none, and no more is accepted. */
  next(): string | undefined {
    const text = this.#pending.length === 0 ? undefined : this.#pending.splice(0).join('\n\n');
    if (text === undefined) this.#over = true;
    return text;
  }

  /** The turn accepts no more input. */
  end(): void {
    this.#over = true;
  }

  /** Answers a request for permission, from policy or by asking. */
  async permission(request: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const fields = merged(
      this.#calls.get(request.toolCall.toolCallId) ?? {},
      readFields(request.toolCall as ToolFields),
    );
    const allowed = await this.#allowed(fields);
    if (this.#context.signal.aborted) return CANCELLED;
    return optionOf(request.options, allowed ? ['allow_once', 'allow_always'] : ['reject_once', 'reject_always']);
  }

  /** Answers a form. */
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

  #say(content: Frame | undefined): void {
    if (content?.type !== 'text' || typeof content.text !== 'string' || content.text === '') return;
    // A block at the end of the reply must start on a line of its own.
    this.reply.add(content.text, this.#apart && !this.reply.atLineStart ? '\n\n' : '');
    this.#apart = false;
  }

  #tool(update: ToolFields): void {
    const { events } = this.#context;
    this.#apart = true;
    const { toolCallId: id } = update;
    if (typeof id !== 'string') return events.progress('running');
    // What came out of a call is the agent's to know.
    const { content, rawOutput, ...told } = readFields(update);
    const known = merged(this.#calls.get(id) ?? {}, told);
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
