/**
 * Node's HTTP, for all that serves and calls. It is not imported: `import` reads every member of a built-in module, and one of
 * this loads Node's own `fetch`, which takes a quarter of the time in which a short command starts.
 *
 * `test/rules.test.ts` holds all of `src/` to this file.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');
