/** A process of this user that calls a guarded MCP server once with the sign-in of a folder. Words: folder, address. */
import { McpAuthorization } from '../../src/mcp/authorization.ts';
import { McpServer } from '../../src/mcp/server.ts';
import { SignInFile } from '../../src/mcp/sign-in-file.ts';

const [folder = '', url = ''] = process.argv.slice(2);
const authorization = new McpAuthorization({ name: 'guarded', url, file: new SignInFile(folder, 'guarded', url) });
const server = new McpServer({ address: { http: { url } }, cwd: '/', authorization });
try {
  const { content = [] } = await server.call('whoami', {}, { signal: AbortSignal.timeout(60_000), timeoutMs: 60_000 });
  process.stdout.write(String(content[0]?.text));
} catch (error) {
  process.stdout.write(`failed: ${(error as Error).message}`);
}
await server.close();
