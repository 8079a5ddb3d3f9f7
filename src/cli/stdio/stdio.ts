/**
 * `handfast stdio`: a host for the parent process, on stdin and stdout. The fast path: reads its few options itself and loads
 * neither the command line library nor, without a configuration file, the code that reads one.
 *
 * `program.ts` has the help text. Nothing but the protocol goes to stdout.
 */

/** The file that is read when none is named. */
const DEFAULT_FILE = 'handfast.yaml';

interface StdioOptions {
  readonly config: string | undefined;
  readonly verbose: boolean;
}

/** Serves until the input ends; resolves with the exit code. */
export async function run(words: readonly string[]): Promise<number> {
  try {
    const { config, verbose } = optionsOf(words);
    // Not imported: that would load the promises of the file system too, and all that they need.
    const { existsSync } = process.getBuiltinModule('node:fs');
    if (config === undefined && !existsSync(DEFAULT_FILE)) {
      return await (await import('./stdio-default.ts')).serveDefaults(verbose);
    }
    return await (await import('./stdio-configured.ts')).serveConfigured(config, verbose);
  } catch (error) {
    const { reportFailure } = await import('../failure.ts');
    return reportFailure(error, words.includes('--json'));
  }
}

function optionsOf(words: readonly string[]): StdioOptions {
  let config: string | undefined;
  let verbose = false;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (word === '--verbose') verbose = true;
    else if (word.startsWith('--config=')) config = word.slice('--config='.length);
    else if (word === '--config' && words[at + 1] !== undefined) config = words[++at];
    else if (word !== '--json') {
      // A plain error: the table of all errors is not loaded yet.
      throw Object.assign(new Error(`stdio accepts --config FILE and --verbose, not ${JSON.stringify(word)}`), {
        code: 'usage',
      });
    }
  }
  return { config, verbose };
}
