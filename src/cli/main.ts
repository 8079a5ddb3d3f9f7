#!/usr/bin/env node
/**
 * The entry of the `handfast` command: makes sure that this Node is new enough, then loads what was asked for. `stdio` has
 * a way of its own past the command line library, because whoever starts it as a child waits for its handshake.
 *
 * It has no static imports and no syntax newer than modules have: both would be read, and fail in words nobody
 * understands, before the check runs. `test/package.test.ts` holds the number to `engines` in package.json.
 */
const OLDEST_NODE = 24;

if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  process.stderr.write(
    `handfast needs Node ${OLDEST_NODE} or newer; this is ${process.version} (${process.execPath})\n`,
  );
  process.exitCode = 2;
} else {
  rememberCompiled();
  const words = process.argv.slice(2);
  // The one option that may stand before this command; it may stand behind it as well.
  const at = words[0] === '--json' ? 1 : 0;
  const served = words[at] === 'stdio' && !words.includes('--help') && !words.includes('-h');
  const { run } = served ? await import('./stdio/stdio.ts') : await import('./program.ts');
  process.exitCode = await run(served ? words.toSpliced(at, 1) : words);
}

/**
 * Keeps compiled code for the next start, in the user's own folder: anybody may write to Node's default place for it, and
 * compiled code is run as it is found.
 */
function rememberCompiled(): void {
  const { HANDFAST_HOME, HOME, USERPROFILE } = process.env;
  const user = HOME || USERPROFILE;
  const home = HANDFAST_HOME || (user && `${user}/.handfast`);
  if (!home) return;
  const { enableCompileCache, flushCompileCache } = process.getBuiltinModule('node:module');
  try {
    const folder = `${home}/compiled`;
    process.getBuiltinModule('node:fs').mkdirSync(folder, { recursive: true, mode: 0o700 });
    enableCompileCache(folder);
    // A child is often killed instead of ended, and then nothing would be kept.
    setTimeout(flushCompileCache, 250).unref();
  } catch {
    // A home that cannot be written to only costs time.
  }
}
