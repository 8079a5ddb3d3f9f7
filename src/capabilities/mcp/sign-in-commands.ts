/**
 * `handfast mcp login` and `logout`: sign in to a server of the configuration, on the machine where the host runs. They need no
 * host: a running one uses the sign-in with its next request.
 */
import { createInterface } from 'node:readline';
import { startProgram } from '../../base/program.ts';
import type { McpAuthorization } from '../../mcp/authorization.ts';
import type { CapabilityLocalCommand } from '../../packages/capability.ts';
import { fail } from '../../wire/errors.ts';
import { authorizationOf, type ServerSettings } from './spec.ts';

type Context = Parameters<CapabilityLocalCommand['run']>[0];
type Configured = Parameters<CapabilityLocalCommand['run']>[1];

/** Length of the timer that holds the process while a person signs in; `signIn` bounds the wait. */
const HOLD_MS = 2 ** 30;
/** Maximum time for opening a browser. */
const OPEN_MS = 10_000;

/**
 * Returns the sign-in of the server that the command names. Fails with `not_found`, and with `usage` for a server that has
 * none.
 */
async function named({ args: [name] }: Context, configured: Configured): Promise<McpAuthorization> {
  const { servers = [] } = ((await configured()) ?? {}) as { readonly servers?: readonly ServerSettings[] };
  const wanted = String(name);
  const settings = servers.find((server) => server.name === wanted);
  if (settings === undefined) {
    const known = servers.filter(({ url }) => url !== undefined).map((server) => server.name);
    const hint = known.length === 0 ? 'it names none with a url' : `those with a url are ${known.join(', ')}`;
    throw fail('not_found', `the configuration names no MCP server ${JSON.stringify(wanted.slice(0, 64))}; ${hint}`);
  }
  const authorization = authorizationOf(settings, process.env);
  if (authorization !== undefined) return authorization;
  const why = settings.url === undefined ? 'it is a program' : 'the configuration has its Authorization header';
  throw fail('usage', `the MCP server ${wanted} has no sign-in: ${why}`);
}

async function login(context: Context, configured: Configured): Promise<undefined> {
  const authorization = await named(context, configured);
  const { terminal, options, signal } = context;
  const isWatched = process.stdin.isTTY === true;
  const { signIn } = await import('../../mcp/sign-in.ts');
  const reader = isWatched || options.browser === false ? createInterface({ input: process.stdin }) : undefined;
  const pasted =
    reader && new Promise<string>((resolve) => reader.on('line', (line) => line.trim() !== '' && resolve(line)));
  // The page that waits for the browser does not hold the process, and without a terminal nothing else does.
  const waiting = setInterval(() => {}, HOLD_MS);
  try {
    await signIn(authorization, {
      signal,
      pasted,
      show: (address) => {
        terminal.note('open this address to sign in:');
        // The address is the only text of the whole command to copy.
        process.stderr.write(`\n${address}\n\n`);
        if (pasted) terminal.note('browser on another machine? paste the address it ends at here:');
        if (options.browser !== false && isWatched) openBrowser(address);
      },
    });
  } finally {
    clearInterval(waiting);
    reader?.close();
  }
  if (terminal.json) terminal.document({ server: authorization.name, signed_in: true });
  else terminal.line(`signed in to ${authorization.name}`);
}

async function logout(context: Context, configured: Configured): Promise<undefined> {
  const authorization = await named(context, configured);
  const { terminal, signal } = context;
  const { signOut } = await import('../../mcp/sign-in.ts');
  const removed = await signOut(authorization, signal);
  if (terminal.json) terminal.document({ server: authorization.name, removed });
  else terminal.line(removed ? `signed out of ${authorization.name}` : `not signed in to ${authorization.name}`);
}

/** Opens the address in the user's browser, if one exists; the user can also copy the address. */
function openBrowser(address: string): void {
  const hasScreen = process.platform !== 'linux' || process.env.DISPLAY || process.env.WAYLAND_DISPLAY;
  if (!hasScreen || process.env.SSH_CONNECTION || process.platform === 'win32') return;
  const command = process.platform === 'darwin' ? 'open' : 'xdg-open';
  startProgram({
    argv: [command, address],
    cwd: '/',
    env: { ...process.env } as Record<string, string>,
    timeoutMs: OPEN_MS,
  }).catch(() => {});
}

export const localCommands: readonly CapabilityLocalCommand[] = [
  {
    usage: 'login <server>',
    about: 'sign in to a server over HTTP; a running host uses it at once',
    options: [['--no-browser', 'open no browser; the address it ends at can be pasted']],
    run: login,
  },
  { usage: 'logout <server>', about: 'forget the sign-in, and revoke it where the server can', run: logout },
];
