/**
 * Completion as shells do it: bash, zsh and fish source the script and are asked for candidates. A shell that is not installed
 * is skipped.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { knownThings } from '../../src/cli/commands/complete.ts';
import { candidateLines, candidatesFor, type Known } from '../../src/cli/completion.ts';
import { Terminal } from '../../src/cli/output/terminal.ts';
import { commandLine } from '../../src/cli/program.ts';
import { setVariable } from '../support/variable.ts';
import { plainEnvironment, User } from './command.ts';

const program = await commandLine(async () => {});
const none: Known = async () => [];
const values = async (words: readonly string[], known = none): Promise<string[]> =>
  (await candidatesFor(program, words, known)).map(({ value }) => value);

describe('candidates', () => {
  test('are commands, then their subcommands', async () => {
    assert.deepEqual(await values(['to']), ['tools', 'toolkits']);
    assert.deepEqual(await values(['tools', '']), ['ls', 'search', 'call', 'help']);
    assert.ok(!(await values([''])).includes('complete'), 'a hidden command is not offered');
  });

  test('are options behind a dash, and the choices of an option', async () => {
    assert.deepEqual(await values(['ping', '--c']), ['--connect', '--cap', '--count']);
    assert.deepEqual(await values(['approve', 'yes', '--remember', '']), ['once', 'session', 'directory']);
    assert.deepEqual(await values(['ping', '--count', '']), []);
  });

  test('are the things an argument names, each argument its own', async () => {
    const known = async (command: string, argument: string) => [
      { value: `${command}/${argument}`.replaceAll(' ', '.'), about: '' },
    ];
    assert.deepEqual(await values(['session', 'show', ''], known), ['session.show/session']);
    assert.deepEqual(await values(['session', 'show', '--json', ''], known), ['session.show/session']);
    assert.deepEqual(await values(['task', 'answer', 'last', ''], known), ['task.answer/answer']);
    assert.deepEqual(await values(['session', 'rm', 'one', ''], known), ['session.rm/session']);
    assert.deepEqual(await values(['ping', ''], known), []);
  });

  test('are none where the things cannot be read, or would need quoting', async () => {
    assert.deepEqual(await values(['task', 'show', ''], () => Promise.reject(new Error('no fleet'))), []);
    assert.deepEqual(await values(['task', 'show', ''], async () => [{ value: 'a b', about: '' }]), []);
  });

  test('are a line each, also where a description has several', () => {
    assert.equal(candidateLines([{ value: 'a', about: 'one\ntwo\tthree' }]), 'a\tone two three\n');
  });
});

const user = new User();
after(() => user.leave());
const environment = plainEnvironment({ HOME: user.folder, HANDFAST_HOME: user.home });

before(async () => {
  const bin = user.write(
    'handfast',
    `#!/bin/sh\nexec ${process.execPath} -C handfast-source ${join(import.meta.dirname, '../../src/cli/main.ts')} "$@"\n`,
  );
  chmodSync(bin, 0o755);
  environment.PATH = `${user.cwd}:${environment.PATH}`;
  await user.up();
});

/** Returns the output of a shell; undefined where it is not installed. */
function printed(shell: string, args: readonly string[], script: string): string | undefined {
  if (spawnSync(shell, ['--version']).error !== undefined) return undefined;
  return execFileSync(shell, [...args, '-c', script], {
    cwd: user.cwd,
    env: environment,
    encoding: 'utf8',
    timeout: 60_000,
  });
}

const inBash = (words: string) => `
  source <(handfast completion bash)
  COMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
  _handfast; printf '%s\\n' "\${COMPREPLY[@]}"`;

test('bash completes commands and schemas, and evaluates nothing that was typed', (context) => {
  const commands = printed('bash', ['--norc'], inBash("handfast tools ''"));
  if (commands === undefined) return context.skip('bash is not installed');
  assert.deepEqual(commands.trim().split('\n'), ['ls', 'search', 'call', 'help']);
  assert.equal(printed('bash', ['--norc'], inBash('handfast schema export task'))?.trim(), 'task-batch');
  printed('bash', ['--norc'], inBash(`handfast tools '$(touch evaluated)' ''`));
  assert.equal(printed('bash', [], 'ls evaluated 2>/dev/null || echo none'), 'none\n');
});

test('tools and sessions are those of the running host', async (t) => {
  setVariable(t, 'HANDFAST_HOME', user.home);
  const { code } = await user.run(['session', 'send', 'new', 'say "a"']);
  assert.equal(code, 0);
  const known = knownThings(new Terminal(false), 60_000);
  assert.deepEqual(await values(['tools', 'call', 'read'], known), ['read_file']);
  const [session, ...others] = await candidatesFor(program, ['session', 'show', ''], known);
  assert.deepEqual(others, []);
  assert.match(session?.value ?? '', /^[\da-f]{8}$/);
});

test('zsh completes commands with what they do', (context) => {
  const script = `
    compdef() { : }; _describe() { print -l $found }; _files() { print files }
    source <(handfast completion zsh)
    words=(handfast tools ''); CURRENT=3; _handfast
    words=(handfast init ''); CURRENT=3; _handfast`;
  const text = printed('zsh', ['-f'], script);
  if (text === undefined) return context.skip('zsh is not installed');
  assert.match(text, /^ls:list the tools$/m);
  assert.match(text, /^files$/m);
});

test('fish completes commands with what they do', (context) => {
  const text = printed('fish', ['--no-config'], "handfast completion fish | source; complete -C 'handfast tools '");
  if (text === undefined) return context.skip('fish is not installed');
  assert.match(text, /^ls\tlist the tools$/m);
});
