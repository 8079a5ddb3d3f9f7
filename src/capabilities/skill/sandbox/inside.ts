/**
 * The code inside a sandbox: the object that a skill gets as its second argument, and the functions that pass its calls to the
 * host and the replies back, as JSON text.
 *
 * `quickjs-thread.ts` evaluates its source text in QuickJS, so it uses only the language itself. A skill that changes it only
 * changes its own copy.
 */

/** A skill's second argument. */
export interface SkillApi {
  /** Calls a tool of the host. Rejects with an error that has its `code`. */
  tool(name: string, args?: object): Promise<unknown>;
  /** Sends an event to the caller of the skill; resolves when it was passed on. */
  event(kind: string, data?: object): Promise<void>;
  progress(pct: number, message?: string): Promise<void>;
  log(message: string): Promise<void>;
  /** Returns the text of one of the skill's own files. */
  resource(path: string): string;
}

/** Messages of the host to a sandbox. */
export type ToInside =
  | {
      readonly type: 'job';
      /** Texts by path; files that are no text are absent. */
      readonly files: Readonly<Record<string, string>>;
      readonly entry: string;
      readonly args: unknown;
    }
  | {
      readonly type: 'reply';
      readonly id: number;
      readonly value?: unknown;
      readonly error?: { code: string; message: string };
    };

/** Messages of a sandbox to its host; checked by `conversation.ts`, since a skill may write any text here. */
export type FromInside =
  | { readonly type: 'call'; readonly id: number; readonly tool: string; readonly args: unknown }
  | { readonly type: 'event'; readonly id: number; readonly kind: string; readonly data: unknown }
  | { readonly type: 'print'; readonly text: string }
  | { readonly type: 'done'; readonly value?: unknown }
  | { readonly type: 'failed'; readonly name: string; readonly message: string };

export interface Inside {
  readonly skill: SkillApi;
  /** Handles a reply of the host. */
  receive(text: string): void;
  print(...values: unknown[]): void;
  /** Runs a skill, and reports its end. */
  run(main: unknown, args: unknown): Promise<void>;
  failed(error: unknown): void;
}

/** @param send passes a text to the host */
export function inside(send: (text: string) => void, files: Readonly<Record<string, string>>): Inside {
  const { parse, stringify } = JSON;
  const { hasOwn } = Object;
  const text = String;
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let count = 0;
  const ask = (message: object): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (waiting.size >= 1024) throw new Error('more than 1,024 calls and events wait: await them');
      const id = ++count;
      const line = stringify({ ...message, id });
      waiting.set(id, { resolve, reject });
      send(line);
    });
  const failed = (thrown: unknown): void => {
    const error = (thrown ?? {}) as { name?: unknown; message?: unknown };
    const isObject = typeof thrown === 'object' && thrown !== null;
    const message = isObject ? text(error.message ?? '') : text(thrown);
    send(
      stringify({
        type: 'failed',
        name: isObject ? text(error.name ?? 'Error') : 'Error',
        message: message.slice(0, 4000),
      }),
    );
  };
  const skill: SkillApi = {
    tool: (name, args = {}) => ask({ type: 'call', tool: text(name), args }),
    event: async (kind, data = {}) => void (await ask({ type: 'event', kind: text(kind), data })),
    progress: (pct, message = '') => skill.event('progress', { pct, message }),
    log: (message) => skill.event('log', { level: 'info', message: text(message) }),
    resource(path) {
      if (hasOwn(files, path)) return files[path] as string;
      throw new Error(`the skill has no file ${path} with text`);
    },
  };
  return {
    skill,
    receive(line) {
      const { id, value, error } = parse(line) as {
        id: number;
        value?: unknown;
        error?: { code: string; message: string };
      };
      const call = waiting.get(id);
      if (call === undefined) return;
      waiting.delete(id);
      if (error === undefined) call.resolve(value);
      else call.reject(Object.assign(new Error(error.message), { code: error.code }));
    },
    print: (...values) =>
      send(
        stringify({
          type: 'print',
          text: values.map((each) => (typeof each === 'string' ? each : (stringify(each) ?? text(each)))).join(' '),
        }),
      ),
    async run(main, args) {
      try {
        if (typeof main !== 'function') throw new TypeError('the entry must export a function by default');
        const line = stringify({ type: 'done', value: await main(args, skill) });
        send(line);
      } catch (error) {
        failed(error);
      }
    },
    failed,
  };
}
