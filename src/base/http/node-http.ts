/**
 * Node's HTTP, for all servers and clients. It is not imported: `import` reads every member of a built-in module, and
 * one of this loads Node's own `fetch`, which takes a quarter of the time in which a short command starts.
 *
 * All of `src/` gets it from this file; `test/rules.test.ts` checks that.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');
