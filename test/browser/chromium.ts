/**
 * A headless Chromium for tests, over its own debugging pipe: starts it, opens pages, runs code in them, and reports
 * their output and errors. The DevTools protocol is JSON with a NUL after each message, so no package is needed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
/** Far above the duration of any step in these tests. */
const PATIENCE_MS = 60_000;

const program = process.env.CHROMIUM ?? find();

/** Reason why no browser is available, for `skip`: false in CI, where its absence is a failure. */
export const skip: string | false =
  program === undefined && process.env.CI === undefined
    ? 'no Chromium in PATH: install the package chromium, or set CHROMIUM to the program'
    : false;

function find(): string | undefined {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/bin']) {
    for (const name of NAMES) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // Not here.
      }
    }
  }
  return undefined;
}

interface Reply {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  // biome-ignore lint/suspicious/noExplicitAny: messages of the DevTools protocol
  readonly params?: any;
  // biome-ignore lint/suspicious/noExplicitAny: messages of the DevTools protocol
  readonly result?: any;
  readonly error?: { readonly message: string };
}

export class Chromium {
  readonly #child: ChildProcess;
  readonly #folder = mkdtempSync(join(tmpdir(), 'handfast-chromium-'));
  readonly #calls = new Map<number, PromiseWithResolvers<Reply>>();
  readonly #pages = new Map<string, Page>();
  #id = 0;
  #stderr = '';

  private constructor() {
    if (program === undefined) throw new Error('no Chromium: install the package chromium, or set CHROMIUM');
    const switches = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
    this.#child = spawn(program, [...switches, `--user-data-dir=${this.#folder}`, '--remote-debugging-pipe'], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
      // The profile, and nothing of this user.
      env: { PATH: process.env.PATH, HOME: this.#folder },
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-4000);
    });
    this.#child.once('exit', (code) => {
      const ended = new Error(`Chromium ended with ${code}: ${this.#stderr}`);
      for (const call of this.#calls.values()) call.reject(ended);
    });
    let rest = '';
    (this.#child.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop() as string;
      for (const message of messages) this.#onMessage(JSON.parse(message));
    });
    (this.#child.stdio[3] as Writable).on('error', () => {});
  }

  static async launch(): Promise<Chromium> {
    const browser = new Chromium();
    await browser.send('Browser.getVersion');
    return browser;
  }

  /** Opens a page and waits until it has loaded. */
  async open(url: string): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.#pages.set(sessionId, page);
    for (const domain of ['Page', 'Runtime']) await this.send(`${domain}.enable`, {}, sessionId);
    await this.send('Page.navigate', { url }, sessionId);
    await page.loaded;
    return page;
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of the DevTools protocol
  async send(method: string, params: object = {}, sessionId?: string): Promise<any> {
    const id = ++this.#id;
    const call = Promise.withResolvers<Reply>();
    this.#calls.set(id, call);
    (this.#child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    const timer = setTimeout(
      () => call.reject(new Error(`${method} took more than ${PATIENCE_MS} ms: ${this.#stderr}`)),
      PATIENCE_MS,
    );
    try {
      const { result, error } = await call.promise;
      if (error !== undefined) throw new Error(`${method}: ${error.message}`);
      return result;
    } finally {
      clearTimeout(timer);
      this.#calls.delete(id);
    }
  }

  #onMessage(message: Reply): void {
    if (message.id !== undefined) this.#calls.get(message.id)?.resolve(message);
    else this.#pages.get(message.sessionId ?? '')?.onEvent(message.method as string, message.params);
  }

  async close(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await ended;
    }
    // Its helpers write for a moment after it.
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

export class Page {
  readonly #browser: Chromium;
  readonly #session: string;
  readonly #load = Promise.withResolvers<void>();
  /** Output of the page and errors that it threw outside of {@link run}. */
  readonly printed: string[] = [];

  constructor(browser: Chromium, session: string) {
    this.#browser = browser;
    this.#session = session;
  }

  get loaded(): Promise<void> {
    return this.#load.promise;
  }

  /** Evaluates an expression, awaits it, and returns its value as JSON carries it. Rejects with its error. */
  // biome-ignore lint/suspicious/noExplicitAny: the value of any expression
  async run(expression: string): Promise<any> {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.#browser.send('Runtime.evaluate', options, this.#session);
    if (exceptionDetails === undefined) return result.value;
    const { exception, text } = exceptionDetails;
    throw new Error(`${exception?.description ?? text}\n${this.printed.join('\n')}`);
  }

  // biome-ignore lint/suspicious/noExplicitAny: events of the DevTools protocol
  onEvent(method: string, params: any): void {
    if (method === 'Page.loadEventFired') this.#load.resolve();
    else if (method === 'Runtime.exceptionThrown') this.printed.push(JSON.stringify(params.exceptionDetails));
    else if (method === 'Runtime.consoleAPICalled') {
      this.printed.push(params.args.map(({ value, description }: never) => value ?? description).join(' '));
    }
  }
}
