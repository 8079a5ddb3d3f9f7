/**
 * An agent at the terminal of a shell: its input is echoed, a key ends a program, and the programs learn of a changed
 * size. Another session then reads the shown output, from a cursor. Needs the package `@lydell/node-pty`; without it
 * the example names the package to install.
 *
 * Run it with `node -C handfast-source examples/terminal.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
await writeFile(
  join(folder, 'handfast.yaml'),
  `listen: "unix://${join(folder, 'host.sock')}"\nplugins: [{ use: proc, options: { programs: [sh] } }]\n`,
);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();
const open = () => connect(address, { capabilities: ['proc'], agentId: 'ana', token });

const agent = await open();
try {
  await atTerminal();
} catch (error) {
  const { code, message, detail } = error as { code: string; message: string; detail?: { reason?: string } };
  if (code !== 'proc.not_started' || detail?.reason !== 'not_configured') throw error;
  console.log(`${code}: ${message}`);
} finally {
  await agent.close();
  await server.close(0);
  await rm(folder, { recursive: true });
}

async function atTerminal(): Promise<void> {
  const shell = await agent.proc.spawn(['sh'], { pty: { cols: 80, rows: 24 }, env: { PS1: 'ready> ' } });
  const output = shell.output();
  let cursor = 0;
  /** Reads until a text is on the screen. */
  const shows = async (text: string): Promise<string> => {
    for (let seen = ''; ; ) {
      const { value, done } = await output.next();
      assert.ok(!done, `the shell ended after ${seen}`);
      seen += value.text;
      cursor = value.seq + 1;
      if (seen.includes(text)) return seen;
    }
  };
  await shows('ready> ');

  await shell.write('stty size\r');
  console.log(`lines and columns: ${/\d+ \d+/.exec(await shows('24 80'))?.[0]}`);
  await shell.resize({ cols: 120, rows: 40 });
  await shell.write('stty size\r');
  console.log(`after resize: ${/\d+ \d+/.exec(await shows('40 120'))?.[0]}`);

  // Ctrl-C is a key: the terminal makes a signal of it, for the program and not for the shell.
  await shell.write(`sh -c 'printf "run%s\\n" ning; exec sleep 600'\r`);
  await shows('running');
  await shell.write('\x03');
  await shows('ready> ');
  console.log('Ctrl-C ended sleep, the shell runs on');

  // Another session continues where this one stopped reading.
  const again = await open();
  const found = await again.proc.find(shell.id);
  await found.write('echo "from another session"; exit 3\r');
  let text = '';
  const rest = found.output({ from: cursor });
  for (;;) {
    const { value, done } = await rest.next();
    if (done) {
      assert.match(text, /\nfrom another session\r\n/);
      console.log(`exit code ${value?.code}`);
      break;
    }
    text += value.text;
  }
  await again.close();
}
