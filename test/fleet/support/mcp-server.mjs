// A small MCP server of the official kind, on stdio, for probes. What it does is told by its arguments:
// `tools a b c` has these tools; `slow` never answers; `grandchild FILE` also starts a program that would outlive it and
// writes its pid to FILE; `pid FILE` writes its own.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const [what, ...rest] = process.argv.slice(2);
if (what === 'grandchild') {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  writeFileSync(rest[0], String(child.pid));
}
if (what === 'pid') writeFileSync(rest[0], String(process.pid));
if (what === 'slow') setInterval(() => {}, 1000);
else {
  console.error('a line before it speaks');
  console.log('and one on stdout that is no message');
  serveStdio(() => {
    const server = new McpServer({ name: 'probed', version: '1.0.0' });
    const tools = what === 'tools' ? rest : ['echo'];
    for (const name of tools) server.registerTool(name, { description: name }, () => ({ content: [] }));
    return server;
  });
}
