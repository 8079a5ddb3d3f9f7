/**
 * A first agent: starts a host as its child, calls two of its tools at once, is refused once, and cancels a call.
 *
 * Run it with `node -C handfast-source examples/first-agent.ts`. With `HOST=ADDRESS` it connects to that host instead.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { connect } from 'handfast';

process.chdir(dirname(import.meta.dirname));
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'stdio'];
const address = process.env.HOST ?? `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;

// #region agent
await using agent = await connect(address, { capabilities: ['tools'] });

const [found, license] = await Promise.all([
  agent.tools.call('grep', { pattern: 'handshake', path: 'src', output: 'files_with_matches' }),
  agent.tools.call<{ content: string }>('read_file', { path: 'LICENSE', limit: 1 }),
]);
console.log(found.summary); // e.g. matches in 34 of 177 files
console.log(license.data?.content.trim()); // MIT License

const refused = await agent.tools.call('read_file', { path: '../secret' }).catch((error) => error);
console.log(`${refused.code}: ${refused.message}`); // tool_denied: "../secret" is outside the workspace
// #endregion

assert.match(String(found.summary), /^matches in \d+ of \d+ files$/);
assert.equal(license.data?.content.trim(), 'MIT License');
assert.equal(refused.code, 'tool_denied');

// A call can be cancelled at any time: the host receives the cancel, and the tool's own signal aborts. This pattern would search
// until the time limit of the tool.
const controller = new AbortController();
const call = agent.tools.call('grep', { pattern: '(.*)*\\x00', path: '.' }, { signal: controller.signal });
setImmediate(() => controller.abort());
const cancelled = await call.catch((error) => error);
console.log(`the call ended: ${cancelled.code}`);
assert.equal(cancelled.code, 'cancelled');
