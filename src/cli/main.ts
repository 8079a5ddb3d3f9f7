#!/usr/bin/env node
/**
 * The entry of the `handfast` command: makes sure that this Node is new enough, then loads the code of the command. `stdio` and
 * `rpc` bypass the command line library, because the program that starts them as a child waits for their handshake.
 *
 * It has no static imports and no recent syntax: both would fail with an unhelpful error before the check runs.
 * `test/package.test.ts` holds the number to `engines` in package.json.
 */
const OLDEST_NODE = 24;

refuseDebugger();

if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  // The module throws on this Node, and its message has the advice.
  await import('../base/node-version.ts').catch(({ message }) => process.stderr.write(`${message}\n`));
  process.exitCode = 2;
} else {
  const home = homeOf(process.env);
  if (home !== undefined) {
    rememberCompiled(home);
    sweepSoon(home);
  }
  const words = process.argv.slice(2);
  // The one option that is allowed before `stdio`; it is allowed after it as well.
  const at = words[0] === '--json' ? 1 : 0;
  const isHelp = words.includes('--help') || words.includes('-h');
  if (words.length === 1 && (words[0] === '--version' || words[0] === '-V')) {
    const { packageVersion } = await import('./package-info.ts');
    process.stdout.write(`${packageVersion()}\n`);
  } else if (isHelp) process.exitCode = await (await import('./program.ts')).run(words);
  else if (words[at] === 'stdio')
    process.exitCode = await (await import('./stdio/stdio.ts')).run(words.toSpliced(at, 1));
  else if (words[0] === 'rpc') process.exitCode = await (await import('./stdio/rpc.ts')).run(words.slice(1));
  else process.exitCode = await (await import('./program.ts')).run(words);
}

/**
 * Keeps a signal from opening a debugger, which every user of this machine could connect to. A signal that came while this
 * process started has opened it already, or is about to; a debugger that an option of Node asks for stays.
 */
function refuseDebugger(): void {
  const { env, execArgv, platform } = process;
  if (platform === 'win32') return;
  process.on('SIGUSR1', () => {});
  if ([...execArgv, env.NODE_OPTIONS].some((word) => /--inspect(?!-p)/.test(word ?? ''))) return;
  const inspector = process.getBuiltinModule('node:inspector');
  const close = (): void => {
    if (inspector.url() !== undefined) inspector.close();
  };
  close();
  setImmediate(close);
  setTimeout(close, 100).unref();
}

/** Returns the user's Handfast folder, as `base/handfast-home.ts` has it; undefined without a home. */
function homeOf({ HANDFAST_HOME, HOME, USERPROFILE }: NodeJS.ProcessEnv): string | undefined {
  const user = HOME || USERPROFILE;
  return HANDFAST_HOME || (user && `${user}/.handfast`) || undefined;
}

/**
 * Stores compiled code for the next start, in the user's own folder: every user can write to Node's default folder for it,
 * and compiled code runs unchecked.
 */
function rememberCompiled(home: string): void {
  const { enableCompileCache, flushCompileCache } = process.getBuiltinModule('node:module');
  try {
    const folder = `${home}/compiled`;
    process.getBuiltinModule('node:fs').mkdirSync(folder, { recursive: true, mode: 0o700 });
    enableCompileCache(folder);
    // A child is often killed instead of ended, and then nothing would be stored.
    setTimeout(flushCompileCache, 250).unref();
  } catch {
    // A home that cannot be written to only costs time.
  }
}

/** Ends the processes of a Handfast process that was killed together with its watcher. Not before this one has started. */
function sweepSoon(home: string): void {
  const sweep = async (): Promise<unknown> => (await import('../base/children/record.ts')).sweep(home);
  setTimeout(() => void sweep().catch(() => {}), 1_000).unref();
}
