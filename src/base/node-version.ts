/**
 * Throws if this Node is too old for the library, with the required version and how to get it. Every entry point
 * imports it first, so that no missing function of Node is met later. Without a stack: the line has all facts.
 *
 * It imports nothing and uses nothing new. `test/package.test.ts` holds the number to `engines` in package.json.
 */
const OLDEST_NODE = 24;

const { versions, version, execPath } = (globalThis as { process?: Partial<NodeJS.Process> }).process ?? {};

// Pages have no Node, and other runtimes name the version of Node that they are compatible with.
if (versions?.node !== undefined && Number.parseInt(versions.node, 10) < OLDEST_NODE) {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const error = new Error(
    `handfast needs Node ${OLDEST_NODE} or newer; this is ${version} (${execPath}). ` +
      'Install one from https://nodejs.org, or run a program with: npx node@26 PROGRAM',
  );
  Error.stackTraceLimit = stackTraceLimit;
  throw error;
}
