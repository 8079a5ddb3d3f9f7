/**
 * `handfast proc attach` when links are cut or swallow everything, sessions are lost and the host is killed: it continues at
 * its last position, or reports the next step.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { type Agent, connect } from '../../../src/connect.ts';
import { type Command, User } from '../../cli/command.ts';
import { ownPort } from '../../support/own-port.ts';
import { startRelay } from '../../support/relay.ts';
import { AtTerminal } from './at-terminal.ts';
import { isAlive, until } from './support.ts';

const pty = { cols: 80, rows: 24 };
const LOST = /\[the connection is lost and tried again; Ctrl-P Ctrl-Q leaves\]/;
/** Bytes after which links end, both directions together. */
const BUDGET = 24_000;

async function siteOf(
  t: TestContext,
  { windowMs = 60_000, budget }: { windowMs?: number; budget?: () => number } = {},
) {
  const user = new User();
  t.after(() => user.leave());
  const port = await ownPort();
  const url = `tcp://127.0.0.1:${port}`;
  const http = `http://127.0.0.1:${await ownPort()}`;
  user.write(
    'handfast.yaml',
    `listen: ['${url}', '${http}']\nplugins: [{ use: proc, options: { programs: [sh] } }]\nlimits: { resume_window_ms: ${windowMs} }\n`,
  );
  const up = async (): Promise<Command> => {
    const command = user.start(['up', '--json', '--config', 'handfast.yaml']);
    await command.says('\n');
    return command;
  };
  const host = await up();
  const tokenFile = JSON.parse(host.stdout).token_file as string;
  const relay = await startRelay({ host: '127.0.0.1', port }, budget);
  t.after(() => relay.close());
  const token = readFileSync(tokenFile, 'utf8').trim();
  const agent = await connect(url, { capabilities: ['proc'], token, agentId: 'owner' });
  t.after(() => agent.close());
  const flags = ['--connect', `tcp://127.0.0.1:${relay.port}`, '--token-file', tokenFile];
  const attach = (id: string, ...words: string[]): AtTerminal =>
    new AtTerminal(t, user, ['proc', 'attach', id, ...flags, ...words]);
  /** Returns the number of sessions of the host. */
  const sessions = async (): Promise<number> => {
    const response = await fetch(`${http}/status`, { headers: { authorization: `Bearer ${token}` } });
    return ((await response.json()) as { sessions: number }).sessions;
  };
  return { relay, agent, host, up, attach, sessions };
}

const shellOf = (agent: Agent<'proc'>) => agent.proc.spawn(['sh'], { pty, env: { PS1: 'ready> ' } });

test('over a link that is cut: it continues where it was, with the size that the terminal has by then', {
  timeout: 300_000,
}, async (t) => {
  const { relay, agent, attach } = await siteOf(t);
  const shell = await shellOf(agent);
  const at = attach(shell.id, '--history');
  await at.says('ready> ');
  await at.terminal.write('echo one-$((1+1))\r');
  await at.says('one-2\r\n');

  await relay.refuse();
  relay.cut();
  await at.says(LOST);
  at.terminal.resize({ cols: 101, rows: 31 });
  // Output and keys of the time without a link.
  await shell.write('echo hidden-$((1+1))\r');
  await at.terminal.write('echo typed-$((1+1))\r');
  await relay.listen();
  const after = await at.says(/hidden-2\r\n.*typed-2\r\n/s);
  assert.equal(after.split('hidden-2\r\n').length, 2);
  assert.equal(after.split('typed-2\r\n').length, 2);
  await until(async () => (await shell.info()).pty?.cols === 101, 'the size');
  at.terminal.resize({ cols: 66, rows: 22 });
  await until(async () => (await shell.info()).pty?.cols === 66, 'the next size');
  await at.terminal.write('exit 7\r');
  await at.says(/code=7=\r\nsame\r\n/);
});

test('over a link that swallows everything, until that is noticed', { timeout: 300_000 }, async (t) => {
  const { relay, agent, attach } = await siteOf(t);
  const shell = await shellOf(agent);
  const at = attach(shell.id, '--history');
  await at.says('ready> ');
  relay.swallowing = true;
  await at.terminal.write('echo typed-$((1+1))\r');
  await shell.write('echo hidden-$((1+1))\r');
  // Neither end gets an end of the link: both detect it by themselves.
  await at.says(LOST);
  relay.swallowing = false;
  const after = await at.says(/typed-2\r\n/);
  assert.equal(after.split('hidden-2\r\n').length, 2);
  await at.terminal.write('exit 4\r');
  await at.says(/code=4=\r\nsame\r\n/);
});

test('over links that end again and again, in the middle of messages: every line comes once', {
  timeout: 300_000,
}, async (t) => {
  let links = 0;
  // The first link brings the command to the process.
  const { relay, agent, attach } = await siteOf(t, { budget: () => (links++ === 0 ? 4 : 1) * BUDGET });
  const script = 'stty -onlcr; read -r line; i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done; exit 9';
  const child = await agent.proc.spawn(['sh', '-c', script], { pty });
  const at = attach(child.id);
  await until(async () => (await child.info()).pty?.cols === 90, 'the attached terminal');
  await child.write('\r');
  const said = await at.says(/code=9=\r\nsame\r\n/);
  // A link that is lost for long is reported, at any position of the output.
  const all = said.replaceAll(new RegExp(`\r\n${LOST.source}\r\n`, 'g'), '');
  assert.deepEqual(
    [...all.matchAll(/line (\d+)/g)].map(([, number]) => Number(number)),
    Array.from({ length: 20_000 }, (_, number) => number),
  );
  assert.ok(relay.cuts > 2, `${relay.cuts} cuts`);
});

test('when its session is lost it opens another one and continues at its cursor', { timeout: 300_000 }, async (t) => {
  const { relay, agent, attach, sessions } = await siteOf(t, { windowMs: 1_000 });
  const shell = await shellOf(agent);
  const at = attach(shell.id, '--history');
  await at.says('ready> ');
  await at.terminal.write('echo before-$((1+1))\r');
  await at.says('before-2\r\n');
  await relay.refuse();
  relay.cut();
  await at.says(LOST);
  await shell.write('echo hidden-$((1+1))\r');
  at.terminal.resize({ cols: 72, rows: 20 });
  await until(async () => (await sessions()) === 1, 'the end of its session');
  await relay.listen();
  const after = await at.says(/hidden-2\r\n/);
  assert.ok(!after.includes('before-2'), after);
  await until(async () => (await shell.info()).pty?.cols === 72, 'the size');
  await at.terminal.write('exit 3\r');
  await at.says(/code=3=\r\nsame\r\n/);
});

for (const returns of [true, false]) {
  test(`when its host is killed and ${returns ? 'started again' : 'stays away'} it says what to do, and the terminal is as it was`, {
    timeout: 300_000,
  }, async (t) => {
    const { agent, host, up, attach } = await siteOf(t, { windowMs: 1_000 });
    const shell = await shellOf(agent);
    const at = attach(shell.id, '--history');
    await at.says('ready> ');
    // A mode that the program can no longer undo.
    await at.terminal.write('printf "\\033[?1049h\\033[?25lfull"\r');
    await at.says(/25lfull/);
    host.child.kill('SIGKILL');
    await host.ended();
    await at.says(LOST);
    if (returns) await up();
    const end = await at.says(/code=(\d+)=\r\nsame\r\n/);
    assert.ok(end.includes('\x1b[?1049l\x1b[?25h'), end);
    if (returns) {
      assert.match(end, /unknown_proc/);
      assert.match(
        end,
        /there is no process "\w{32}": processes end with their session and with their host; "handfast proc ls" lists/,
      );
    } else
      assert.match(end, /where its host runs, "handfast proc attach \w{12}" continues; where it does not, the process/);
    assert.doesNotMatch(end, /code=0=/);
    await until(() => !isAlive(shell.pid), 'the end of the process');
  });
}
