/**
 * Entry of the thread that runs skills in QuickJS. Each run has a WebAssembly instance of its own, made before its job comes, so
 * that nothing of one run is in the memory of the next. Started by `quickjs.ts`, which ends the thread when a run is over time.
 *
 * Inside there is the language and nothing else: no host object crosses, only JSON texts by one function. The one file that
 * imports `quickjs-emscripten`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime } from 'quickjs-emscripten';
import { inside, type ToInside } from './inside.ts';

/** What the thread is given. */
export interface ThreadData {
  readonly memoryBytes: number;
  readonly maxMessageChars: number;
}

/** What it sends: a line of the skill, or how it is itself. */
export type ThreadMessage =
  | { readonly line: string }
  | { readonly state: 'ready' | 'over' }
  | { readonly state: 'missing' | 'crashed'; readonly reason: string };

const STACK_BYTES = 512 * 1024;
const port = parentPort as NonNullable<typeof parentPort>;
const { memoryBytes, maxMessageChars } = workerData as ThreadData;
const say = (message: ThreadMessage): void => port.postMessage(message);

/** The compiler's own types have none for it outside of pages. */
const { compile } = (globalThis as unknown as { WebAssembly: { compile(code: Uint8Array): Promise<never> } })
  .WebAssembly;

type Engine = typeof import('quickjs-emscripten');

/** A place for one run. */
interface Place {
  readonly runtime: QuickJSRuntime;
  readonly context: QuickJSContext;
  /** Bytes that the instance has, which never become fewer. */
  readonly bytes: () => number;
}

async function loadEngine(): Promise<() => Promise<Place>> {
  const engine: Engine = await import('quickjs-emscripten');
  const require = createRequire(createRequire(import.meta.url).resolve('quickjs-emscripten'));
  // Compiled once for all runs of the thread.
  const wasmModule = await compile(readFileSync(require.resolve('@jitl/quickjs-wasmfile-release-sync/wasm')));
  return async () => {
    const variant = engine.newVariant(engine.RELEASE_SYNC, { wasmModule });
    const instance = await engine.newQuickJSWASMModuleFromVariant(variant);
    const runtime = instance.newRuntime();
    runtime.setMemoryLimit(memoryBytes);
    runtime.setMaxStackSize(STACK_BYTES);
    return { runtime, context: runtime.newContext(), bytes: () => instance.getWasmMemory().buffer.byteLength };
  };
}

/** One run; settles when the skill has said its result, or can say none any more. */
function start({ runtime, context, bytes }: Place, { files, entry, args }: Extract<ToInside, { type: 'job' }>) {
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  /** Calls and events that the host has not answered. */
  let waiting = 0;
  let isOver = false;
  runtime.setModuleLoader(
    (path) =>
      Object.hasOwn(files, path) ? (files[path] as string) : { error: new Error(`the skill has no file ${path}`) },
    (from, name) => resolved(from, name),
  );
  const send = context.newFunction('send', (text: QuickJSHandle) => {
    const length = context.getProp(text, 'length').consume((each) => context.getNumber(each));
    if (!(length <= maxMessageChars)) throw new Error(`a message of more than ${maxMessageChars} characters`);
    const line = context.getString(text);
    say({ line });
    if (/^\{"type":"(?:call|event)"/.test(line)) waiting++;
    // The host reads nothing behind the result.
    if (/^\{"type":"(?:done|failed)"/.test(line)) {
      isOver = true;
      end();
    }
  });
  const call = (made: QuickJSHandle, ...given: QuickJSHandle[]): QuickJSHandle =>
    context.unwrapResult(context.callFunction(made, context.undefined, ...given));
  const settle = (): void => {
    context.unwrapResult(runtime.executePendingJobs() as never);
    // Nothing can wake it any more. An engine without memory cannot even say so.
    if (isOver || waiting > 0) return;
    isOver = true;
    const isFull = bytes() > 0.8 * memoryBytes;
    const message = isFull ? 'out of memory' : 'its promise never settles';
    say({ line: JSON.stringify({ type: 'failed', name: isFull ? 'InternalError' : 'Error', message }) });
    end();
  };
  const text = (value: unknown): QuickJSHandle => context.newString(JSON.stringify(value));
  const parse = context.unwrapResult(context.evalCode('JSON.parse'));
  const make = context.unwrapResult(context.evalCode(`(${inside.toString()})`));
  const own = call(make, send, call(parse, text(files)));
  const [run, receive, print, failed] = ['run', 'receive', 'print', 'failed'].map((name) =>
    context.getProp(own, name),
  ) as [QuickJSHandle, QuickJSHandle, QuickJSHandle, QuickJSHandle];
  const console = context.newObject();
  for (const name of ['log', 'info', 'warn', 'error', 'debug']) context.setProp(console, name, print);
  context.setProp(context.global, 'console', console);
  const given = call(parse, text(args ?? null));
  const loaded = context.evalCode(files[entry] as string, entry, { type: 'module' });
  if (loaded.error) call(failed, loaded.error);
  else {
    // A module that awaits at its top is a promise of its exports.
    const main = context.unwrapResult(
      context.evalCode(
        '(loaded, run, failed, args) => Promise.resolve(loaded).then((m) => run(m.default, args), failed)',
      ),
    );
    call(main, loaded.value, run, failed, given);
  }
  settle();
  return {
    over,
    receive(line: string) {
      waiting--;
      call(receive, context.newString(line));
      settle();
    },
  };
}

/** The path of a module that another one imports: relative to it, inside the folder. */
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
  let newPlace: () => Promise<Place>;
  try {
    newPlace = await loadEngine();
  } catch (error) {
    return say({ state: 'missing', reason: (error as Error).message });
  }
  let place = newPlace();
  await place;
  let running: Promise<ReturnType<typeof start>> | undefined;
  // Also where memory ran out in the engine itself, which is then of no use.
  const crashed = (error: unknown): void =>
    say({ state: 'crashed', reason: String((error as Error)?.message ?? error) });
  port.on('message', (line: string) => {
    const message = JSON.parse(line) as ToInside;
    if (message.type === 'reply') return void running?.then((run) => run.receive(line)).catch(crashed);
    running = place.then((ready) => start(ready, message));
    void running
      .then(({ over }) => over)
      .then(() => {
        running = undefined;
        // The used instance is garbage; its context is never touched again.
        place = newPlace();
        say({ state: 'over' });
        return place;
      })
      .catch(crashed);
  });
  say({ state: 'ready' });
}

await serve();
