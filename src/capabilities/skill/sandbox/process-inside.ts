/**
 * The code that runs in the process of a skill: it waits for the job on descriptor 3, loads the modules of the skill out of the
 * job, and passes its calls to the host. Output of the skill uses other descriptors, so that it is never taken for a message.
 *
 * `confinement.ts` gives its source text to Node, so that the process needs no file of this package. So it uses only modules of
 * Node.
 */
import type { inside, ToInside } from './inside.ts';
import type { Withheld } from './process-withheld.ts';

/** The first line of a process: it waits for its job. */
export const READY = '{"type":"ready"}';

/**
 * @param maxMessageChars longest message that is sent
 * @param ready the line that is sent first
 * @param withhold takes modules and functions from the process; undefined: the sandbox around the process confines it
 * @param importModule the `import()` of the process: the compiler would put a separate function around an `import()` written
 *   here
 */
export function processInside(
  makeInside: typeof inside,
  maxMessageChars: number,
  ready: string,
  withhold: (() => Withheld) | undefined,
  importModule: (url: string) => Promise<{ default: unknown }>,
): void {
  const { Socket } = process.getBuiltinModule('node:net');
  const { isBuiltin, registerHooks } = process.getBuiltinModule('node:module');
  const { StringDecoder } = process.getBuiltinModule('node:string_decoder');
  const { parse } = JSON;
  const { hasOwn } = Object;
  // The skill can replace every method and getter that is looked up after its first line.
  const { call } = Function.prototype;
  const startsWith = call.bind(String.prototype.startsWith) as (text: string, start: string) => boolean;
  const slice = call.bind(String.prototype.slice) as (text: string, from: number) => string;
  const hrefOf = call.bind(Object.getOwnPropertyDescriptor(URL.prototype, 'href')?.get as () => string) as (
    url: URL,
  ) => string;
  const Url = URL;
  const decode = decodeURIComponent;
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  const scheme = 'skill:/';
  // Handlers of the skill cannot prevent it.
  const { reallyExit } = process as unknown as { reallyExit: (code: number) => never };
  const withheld = withhold?.();
  let files: Readonly<Record<string, string>> = {};
  let own: ReturnType<typeof inside> | undefined;
  /** Calls and events without a reply of the host. */
  let waiting = 0;
  let isOver = false;

  const send = (text: string): void => {
    if (text.length > maxMessageChars) throw new Error(`a message of more than ${maxMessageChars} characters`);
    // The channel stays open for the reply, and for nothing else.
    if (/^\{"type":"(?:call|event)"/.test(text) && waiting++ === 0) channel.ref();
    if (/^\{"type":"(?:done|failed)"/.test(text)) isOver = true;
    channel.write(`${text}\n`);
  };

  /** Returns true for a module of Node that the skill may have. */
  const isGiven = (name: string): boolean => isBuiltin(name) && withheld?.allows(name) !== false;
  const isRelative = (path: string): boolean =>
    startsWith(path, './') || startsWith(path, '../') || startsWith(path, '/');
  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL } = context;
      const isOwn = startsWith(specifier, scheme);
      const isFromOwn = parentURL !== undefined && startsWith(parentURL, scheme);
      if (isGiven(specifier)) return next(specifier, context);
      if (!isOwn && !isFromOwn && withheld === undefined) return next(specifier, context);
      if (!isOwn && !(isFromOwn && isRelative(specifier))) throw new Error(`the skill has no module ${specifier}`);
      return { url: hrefOf(new Url(specifier, parentURL)), format: 'module', shortCircuit: true };
    },
    load(url, context, next) {
      if (startsWith(url, scheme)) {
        const path = decode(slice(url, scheme.length));
        if (!hasOwn(files, path)) throw new Error(`the skill has no file ${path}`);
        return { format: 'module', source: files[path] as string, shortCircuit: true };
      }
      if (withheld !== undefined && !isGiven(url)) throw new Error(`the skill has no module ${url}`);
      return next(url, context);
    },
  });

  const begin = (job: Extract<ToInside, { type: 'job' }>): void => {
    withheld?.begin();
    files = job.files;
    const made = makeInside(send, files);
    own = made;
    const { console } = globalThis;
    for (const name of ['log', 'info', 'warn', 'error', 'debug'] as const) console[name] = made.print;
    process.on('uncaughtException', made.failed);
    // No event can continue the skill any more.
    process.on('beforeExit', () => {
      if (!isOver) made.failed(new Error('its promise never settles'));
    });
    channel.unref();
    const url = scheme + job.entry.split('/').map(encodeURIComponent).join('/');
    importModule(url).then((main) => made.run(main.default, job.args), made.failed);
  };
  const receive = (line: string): void => {
    if (own === undefined) return begin(parse(line));
    if (--waiting === 0) channel.unref();
    own.receive(line);
  };
  const decoder = new StringDecoder('utf8');
  let rest = '';
  channel.on('data', (chunk: Buffer) => {
    const lines = decoder.write(chunk).split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop() as string;
    for (const line of lines) receive(line);
  });
  channel.write(`${ready}\n`);
  // The host has ended.
  const end = (): void => reallyExit(1);
  channel.on('end', end);
  channel.on('error', end);
}
