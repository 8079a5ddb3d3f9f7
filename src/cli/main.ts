#!/usr/bin/env node
/**
 * The entry of the `handfast` command: makes sure that this Node is new enough, then loads the command itself.
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
  const { run } = await import('./program.ts');
  process.exitCode = await run(process.argv.slice(2));
}
