/**
 * Entry of the thread that runs skills in QuickJS. Each run has a separate WebAssembly instance, made before its job arrives,
 * so that the memory of a run contains nothing of an earlier one. `quickjs.ts` ends the thread when a run exceeds its timeout.
 *
 * The inside has only the language: no host object crosses, only JSON texts by one function. The one file that imports
 * `quickjs-emscripten`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime } from 'quickjs-emscripten';
import { inside, type ToInside } from './inside.ts';
import { SANDBOX_PRIORITY } from './sandbox.ts';

/** The data of the thread. */
export interface ThreadData {
  readonly memoryBytes: number;
  readonly maxMessageChars: number;
  /** The interpreter as an earlier thread compiled it; machine code is shared, too. Undefined: the thread compiles it. */
  readonly compiled?: unknown;
}

/**
 * A message of the thread: a line of the skill, or the state of the thread. `ready`: an unused instance waits for a job; with
 * the interpreter, when this thread compiled it. `over`: nothing of the run is executed any more.
 */
export type ThreadMessage =
  | { readonly line: string }
  | { readonly state: 'ready'; readonly compiled?: unknown }
  | { readonly state: 'over' }
  | { readonly state: 'missing' | 'crashed'; readonly reason: string };

const STACK_BYTES = 512 * 1024;
/** The message of the interpreter. */
const NO_MEMORY = 'out of memory';
const PAGE_BYTES = 64 * 1024;
/** The interpreter's minimum, and the maximum it allows. */
const [MIN_PAGES, MAX_PAGES] = [256, 32_768];
const zeros = Buffer.alloc(PAGE_BYTES);
const port = parentPort as NonNullable<typeof parentPort>;
const { memoryBytes, maxMessageChars, compiled } = workerData as ThreadData;
const say = (message: ThreadMessage): void => port.postMessage(message);

/** The memory of an instance; never becomes smaller. */
interface WasmMemory {
  readonly buffer: ArrayBuffer;
  /** Called by the interpreter's allocator. Throws beyond the maximum. */
  grow(pages: number): number;
}

/** The compiler's own types lack WebAssembly outside of pages. */
const { compile, Memory } = (
  globalThis as unknown as {
    WebAssembly: {
      compile(code: Uint8Array): Promise<never>;
      Memory: new (pages: { initial: number; maximum: number }) => WasmMemory;
    };
  }
).WebAssembly;

type Engine = typeof import('quickjs-emscripten');

/** A place for one run: an instance, with everything in it that exists before the job. */
interface Place {
  readonly runtime: QuickJSRuntime;
  readonly context: QuickJSContext;
  /** True once the instance requested more memory than it may have. */
  readonly isFull: () => boolean;
  /** Receives the messages of the code; set by the run. */
  readonly out: { say: (line: string) => void };
  readonly fill: QuickJSHandle;
  readonly begin: QuickJSHandle;
  readonly receive: QuickJSHandle;
  readonly failed: QuickJSHandle;
}

/**
 * Evaluated in the place, around `inside.ts`: `fill` puts the files of the skill there, `begin` runs its entry. A module that
 * awaits at its top is a promise of its exports.
 */
const PROLOGUE = `(makeInside, send) => {
  const { parse } = JSON;
  const { assign } = Object;
  const files = {};
  const { run, receive, print, failed } = makeInside(send, files);
  globalThis.console = { log: print, info: print, warn: print, error: print, debug: print };
  return {
    receive,
    failed,
    fill: (text) => void assign(files, parse(text)),
    begin: (loaded, text) => {
      const args = parse(text);
      Promise.resolve(loaded).then((module) => run(module.default, args), failed);
    },
  };
}`;

async function loadEngine(): Promise<{ readonly wasmModule: never; readonly newPlace: () => Promise<Place> }> {
  const engine: Engine = await import('quickjs-emscripten');
  const require = createRequire(createRequire(import.meta.url).resolve('quickjs-emscripten'));
  const wasmModule =
    (compiled as undefined | never) ??
    (await compile(readFileSync(require.resolve('@jitl/quickjs-wasmfile-release-sync/wasm'))));
  let isFull = false;
  const onRefused = (): void => {
    isFull = true;
  };
  let memory = newMemory(onRefused);
  const newPlace = async (): Promise<Place> => {
    if (!cleared(memory)) memory = newMemory(onRefused);
    isFull = false;
    const variant = engine.newVariant(engine.RELEASE_SYNC, { wasmModule, wasmMemory: memory as never });
    const instance = await engine.newQuickJSWASMModuleFromVariant(variant);
    const runtime = instance.newRuntime();
    runtime.setMemoryLimit(memoryBytes);
    runtime.setMaxStackSize(STACK_BYTES);
    const context = runtime.newContext();
    const out: Place['out'] = { say: () => {} };
    const send = context.newFunction('send', (text: QuickJSHandle) => {
      const length = context.getProp(text, 'length').consume((each) => context.getNumber(each));
      if (!(length <= maxMessageChars)) throw new Error(`a message of more than ${maxMessageChars} characters`);
      out.say(context.getString(text));
    });
    const [makeInside, prologue] = [`(${inside.toString()})`, PROLOGUE].map((source) =>
      context.unwrapResult(context.evalCode(source)),
    ) as [QuickJSHandle, QuickJSHandle];
    const own = context.unwrapResult(context.callFunction(prologue, context.undefined, makeInside, send));
    const part = (name: string): QuickJSHandle => context.getProp(own, name);
    return {
      runtime,
      context,
      isFull: () => isFull,
      out,
      fill: part('fill'),
      begin: part('begin'),
      receive: part('receive'),
      failed: part('failed'),
    };
  };
  return { wasmModule, newPlace };
}

/**
 * Makes the memory for the interpreter's own allocations and the limit of a run. @param onRefused called when it requests more
 */
function newMemory(onRefused: () => void): WasmMemory {
  const pages = MIN_PAGES + Math.ceil(memoryBytes / PAGE_BYTES);
  const memory = new Memory({ initial: MIN_PAGES, maximum: Math.min(pages, MAX_PAGES) });
  const grow = memory.grow.bind(memory);
  // The only sign of exhausted memory: errors that the interpreter has no memory for are `null`, or have no message.
  memory.grow = (more) => {
    try {
      return grow(more);
    } catch (error) {
      onRefused();
      throw error;
    }
  };
  return memory;
}

/**
 * Clears the memory for the next instance; returns false when a run made it larger. A separate memory for each would leave 16
 * MiB to the garbage collector at every run. Pages that were never written stay without real memory: they are only read.
 */
function cleared({ buffer }: WasmMemory): boolean {
  if (buffer.byteLength > MIN_PAGES * PAGE_BYTES) return false;
  const bytes = Buffer.from(buffer);
  for (let at = 0; at < bytes.length; at += PAGE_BYTES) {
    const end = at + PAGE_BYTES;
    if (zeros.compare(bytes, at, end) !== 0) bytes.fill(0, at, end);
  }
  return true;
}

/** Starts one run; `over` settles when the skill has sent its result, or can send none any more. */
function start(place: Place, { files, entry, args }: Extract<ToInside, { type: 'job' }>) {
  const { runtime, context, isFull, out } = place;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  /** Calls and events without a reply of the host. */
  let waiting = 0;
  let isOver = false;
  const end = (): void => {
    isOver = true;
    // Code that runs after its result is interrupted; the host ends the thread if that does not help.
    runtime.setInterruptHandler(() => true);
    resolve();
  };
  const failedWith = (name: string, message: string): string => JSON.stringify({ type: 'failed', name, message });
  const noMemory = failedWith('InternalError', NO_MEMORY);
  /** Messages of an interpreter that has no memory for an error or for its message. */
  const withoutMemory = [failedWith('Error', 'null'), failedWith('InternalError', '')];
  out.say = (line) => {
    if (isOver) return;
    say({ line: withoutMemory.includes(line) && isFull() ? noMemory : line });
    if (/^\{"type":"(?:call|event)"/.test(line)) waiting++;
    // The host reads nothing after the result.
    if (/^\{"type":"(?:done|failed)"/.test(line)) end();
  };
  runtime.setModuleLoader(
    (path) =>
      Object.hasOwn(files, path) ? (files[path] as string) : { error: new Error(`the skill has no file ${path}`) },
    (from, name) => resolved(from, name),
  );
  const call = (made: QuickJSHandle, ...given: QuickJSHandle[]): void => {
    const result = context.callFunction(made, context.undefined, ...given);
    if (!isOver) context.unwrapResult(result);
  };
  const settle = (): void => {
    const result = runtime.executePendingJobs();
    // After the result, the interrupt is no error.
    if (isOver) return;
    context.unwrapResult(result as never);
    // No event can continue the skill any more. An engine without memory cannot report even that.
    if (waiting > 0) return;
    out.say(isFull() ? noMemory : failedWith('Error', 'its promise never settles'));
  };
  const text = (value: unknown): QuickJSHandle => context.newString(JSON.stringify(value));
  call(place.fill, text(files));
  const given = text(args ?? null);
  const loaded = context.evalCode(files[entry] as string, entry, { type: 'module' });
  if (loaded.error) call(place.failed, loaded.error);
  else call(place.begin, loaded.value, given);
  settle();
  return {
    over,
    receive(line: string) {
      if (isOver) return;
      waiting--;
      call(place.receive, context.newString(line));
      settle();
    },
  };
}

/** Returns the path of a module that another one imports: relative to it, inside the folder. */
function resolved(from: string, name: string): string {
  if (!name.startsWith('./') && !name.startsWith('../')) return name;
  const parts = from.split('/').slice(0, -1);
  for (const part of name.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '.') parts.push(part);
  }
  return parts.join('/');
}

async function serve(): Promise<void> {
  // On Linux, this applies to this thread alone.
  if (process.platform === 'linux') setPriority(0, SANDBOX_PRIORITY);
  let engine: Awaited<ReturnType<typeof loadEngine>>;
  try {
    engine = await loadEngine();
  } catch (error) {
    return say({ state: 'missing', reason: (error as Error).message });
  }
  let place = await engine.newPlace();
  let running: ReturnType<typeof start> | undefined;
  // Also when memory ran out in the engine itself, which is then unusable.
  const crashed = (error: unknown): void =>
    say({ state: 'crashed', reason: place.isFull() ? NO_MEMORY : String((error as Error)?.message ?? error) });
  const begin = async (job: Extract<ToInside, { type: 'job' }>): Promise<void> => {
    running = start(place, job);
    await running.over;
    // The used instance is garbage; its context is never touched again.
    running = undefined;
    say({ state: 'over' });
    place = await engine.newPlace();
    say({ state: 'ready' });
  };
  port.on('message', (line: string) => {
    const message = JSON.parse(line) as ToInside;
    if (message.type === 'job') return void begin(message).catch(crashed);
    try {
      running?.receive(line);
    } catch (error) {
      crashed(error);
    }
  });
  say({ state: 'ready', ...(compiled === undefined && { compiled: engine.wasmModule }) });
}

await serve();
