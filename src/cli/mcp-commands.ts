/**
 * `handfast mcp` for MCP clients: serving them on pipes. The commands about servers behind a host, which share the word, come from
 * the capability `mcp`.
 */
import { CLIENTS } from './client-entries.ts';
import { type Act, Argument, type Command, configOption, jsonOption, reaching, refusingUnknown } from './options.ts';

export function addMcp(program: Command, act: (action: Act) => Promise<void>): void {
  const mcp = refusingUnknown(program.command('mcp'))
    .description('serve MCP clients; the MCP servers behind a host, and their tools')
    .addHelpText(
      'after',
      `
Without a further word it serves, as "handfast mcp serve" does: what an MCP client has as its command.`,
    );
  reaching(mcp.command('serve', { isDefault: true }))
    .description('serve tools, memory, prompts and resources to the MCP client that started this program')
    .addOption(configOption())
    .option('--verbose', 'log what happens to stderr, not only warnings')
    .addHelpText(
      'after',
      `
Uses the host that is running (handfast up); else one of its own while the client stays, for the current folder.
JSON-RPC, one message a line; nothing else goes to stdout. Ends with exit code 0 when the client closes the pipes.

In the settings of a client:
  "mcpServers": { "handfast": { "command": "handfast", "args": ["mcp"] } }`,
    )
    .action((flags) => act(async () => (await import('./commands/mcp.ts')).mcp(flags)));
  reaching(mcp.command('config'))
    .addArgument(new Argument('<client>', 'the client').choices(CLIENTS))
    .description('print the entry with which a client starts "handfast mcp"')
    .option('--write', 'merge it into the settings of the client, whose other members stay')
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
--connect, --token-file and --config are written into the entry. Files: claude ~/.claude.json, cursor ~/.cursor/mcp.json,
vscode mcp.json of its user, codex ~/.codex/config.toml, opencode ~/.config/opencode/opencode.json. Comments stay.`,
    )
    .action((client, flags) =>
      act(async (terminal) => (await import('./commands/mcp-config.ts')).mcpConfig(client, flags, terminal)),
    );
}
