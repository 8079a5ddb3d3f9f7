/**
 * The common parts of the tests of the built-in tools: a workspace on the real disk, a running request made of plain parts, and
 * a call as the host makes it: arguments checked and completed by the tool's schema, the result checked by its shape.
 */
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { type ArgumentValidator, ValidatorCache } from '../../../../src/capabilities/tools/arguments.ts';
import { type AnyTool, isShaped, type ShapedResult } from '../../../../src/capabilities/tools/tool.ts';
import type { CallContext, EventKind } from '../../../../src/host/context.ts';
import { fail, HandfastError } from '../../../../src/wire/errors.ts';

export interface RecordedEvent {
  readonly kind: EventKind | (string & {});
  readonly data: Record<string, unknown>;
}

/** A running request whose events are recorded. */
export interface TestCall extends CallContext {
  readonly events: RecordedEvent[];
  /** Cancels the request. */
  cancel(): void;
}

/** Returns a running request. `onEvent` may return a promise: then the tool has a slow reader. */
export function testCall(workspace: string, onEvent?: (event: RecordedEvent) => Promise<void> | void): TestCall {
  const controller = new AbortController();
  const events: RecordedEvent[] = [];
  const nothing = () => {};
  return {
    events,
    cancel: () => controller.abort(fail('cancelled', 'the caller gave up')),
    signal: controller.signal,
    session: {
      id: 's',
      agentId: 'a',
      principal: { name: 'local' },
      signal: controller.signal,
      signalOf: () => controller.signal,
      granted: () => true,
      push: () => false,
      ask: () => Promise.reject(new Error('built-in tools ask nothing')),
    },
    log: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    workspace,
    startedAt: performance.now(),
    depth: 0,
    grant: undefined,
    get store(): never {
      throw new Error('built-in tools have no store');
    },
    dataFolder: () => Promise.reject(new Error('built-in tools have no data folder')),
    acquireThread: () => Promise.resolve(nothing),
    acquireProcess: () => Promise.resolve(nothing),
    call: () => Promise.reject(new Error('built-in tools call no other capability')),
    yieldSlot: () => nothing,
    limit: nothing,
    keepStream: nothing,
    finishStream: nothing,
    afterReply: nothing,
    remainingMs: () => Number.POSITIVE_INFINITY,
    emit: (kind, data) => {
      const event = { kind, data };
      events.push(event);
      return onEvent?.(event) ?? undefined;
    },
  };
}

/** Makes a fresh directory with a `workspace` in it, removed after the test. */
export async function makeWorkspace(
  t: TestContext,
  files: Record<string, string | Uint8Array> = {},
): Promise<{ outside: string; workspace: string }> {
  const outside = await realpath(await mkdtemp(join(tmpdir(), 'handfast-tools-')));
  t.after(() => rm(outside, { recursive: true, force: true }));
  const workspace = join(outside, 'workspace');
  await mkdir(workspace);
  await put(workspace, files);
  return { outside, workspace };
}

/** Writes files below a directory, with the directories they need. */
export async function put(directory: string, files: Record<string, string | Uint8Array>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), content);
  }
}

const checkers = new ValidatorCache();
/** Compiling a schema takes longer than most calls. */
const compiled = new WeakMap<AnyTool, Promise<[ArgumentValidator, ArgumentValidator]>>();

/** Calls a tool as the host does and returns the whole result. */
export async function callShaped(
  tool: AnyTool,
  args: Record<string, unknown>,
  context: CallContext,
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape of its tool
): Promise<ShapedResult<any>> {
  let checks = compiled.get(tool);
  if (checks === undefined) {
    const ofArguments = checkers.compile(tool.input ?? {}, `arguments of ${tool.name}`);
    checks = Promise.all([ofArguments, checkers.compile(tool.output ?? {}, `result of ${tool.name}`)]);
    compiled.set(tool, checks);
  }
  const [checkArguments, checkResult] = await checks;
  const returned: unknown = await tool.run(await checkArguments(args), context);
  if (!isShaped(returned)) throw new Error('the result has no shape');
  checkResult(returned.data);
  return returned;
}

/** Calls a tool and returns its data. */
// biome-ignore lint/suspicious/noExplicitAny: each test knows the shape of its tool
export async function call(tool: AnyTool, args: Record<string, unknown>, context: CallContext): Promise<any> {
  return (await callShaped(tool, args, context)).data;
}

/** Returns a check for `assert.rejects`: the code and the reason, and that the caller's error contains no path of the host. */
export function failsWith(code: string, reason?: string, secret?: string): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof HandfastError)) throw error;
    const told = JSON.stringify([error.message, error.detail]);
    if (error.code !== code || (reason !== undefined && error.detail.reason !== reason)) {
      throw new Error(`expected ${code} ${reason ?? ''}, got ${error.code} ${told}`);
    }
    if (secret !== undefined && told.includes(secret)) throw new Error(`told a path of the host: ${told}`);
    return true;
  };
}
