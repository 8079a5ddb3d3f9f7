/**
 * The real `codex exec` as an executor, against a scripted model, in a real git repository: it changes files on the first
 * turn and on a resumed one, each turn is counted by itself, a lost thread is started again, and it ends when it is stopped.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeExecutor } from '../../src/fleet/executors/make.ts';
import { tokensSpent } from '../../src/fleet/executors/usage.ts';
import { type ModelRequest, startModelServer } from '../../src/testing/model-server.ts';
import { fakeContext, fakeLog, isAlive, taskOf } from '../fleet/executors/fake-context.ts';
import { codexProgram, skip } from './codex.ts';
import { changesIn, makeRepository } from './git-repository.ts';
import { readinessOf } from './readiness.ts';

test('codex changes files of a repository, is counted turn by turn, finds its thread again, and is stopped', {
  skip,
}, async () => {
  const seen: string[] = [];
  await using model = await startModelServer({
    otherwise: ({ body }: ModelRequest) => {
      seen.push(JSON.stringify(body.input));
      const last = body.input.at(-1);
      if (last.type === 'function_call_output')
        return { text: 'Written.', usage: { input: 900, output: 30, cached: 400 } };
      if (JSON.stringify(last).includes('for ever')) return { text: 'well', breaks: 'stall' };
      const input = { cmd: 'echo hello >> note.txt' };
      const calls = [{ id: `c${seen.length}`, name: 'exec_command', input }];
      return { text: 'I write it.', tool_calls: calls, usage: { input: 700, output: 20, cached: 100 } };
    },
  });
  // Not in the system's folder of temporary files, which its sandbox lets every command write.
  const top = mkdtempSync('/var/tmp/handfast-codex-');
  try {
    const [folder, home] = [join(top, 'repo'), join(top, 'home')];
    makeRepository(folder);
    mkdirSync(join(home, '.codex'), { recursive: true });
    const program = codexProgram(model.baseUrl('responses'), home);
    // Resuming takes this flag in another place than beginning.
    const args = [...program.args, '--add-dir', home];
    const config = { kind: 'codex', model: 'm', ...program, args } as const;
    const make = () => makeExecutor(config, { home: join(home, 'worker'), log: fakeLog() });
    const executor = make();

    const readiness = await readinessOf(executor);
    assert.equal(readiness.present, true);
    assert.match(readiness.version ?? '', /^\d+\.\d+/);
    // No sign-in exists, and with a custom provider none is needed.
    assert.equal(readiness.authenticated, undefined);

    const first = await executor.start(taskOf('Write a note. The word is apricot.'), fakeContext(folder)).outcome;
    assert.deepEqual([first.failure, first.text], [undefined, 'Written.']);
    assert.equal(readFileSync(join(folder, 'note.txt'), 'utf8'), 'hello\n');
    assert.deepEqual(changesIn(folder), ['?? note.txt']);
    assert.equal(tokensSpent(first.usage), 700 - 100 + 20 + 900 - 400 + 30);

    const again = make();
    assert.equal(again.hasConversation('c-1'), true);
    const second = await again.start(taskOf('And once more.'), fakeContext(folder)).outcome;
    assert.equal(second.failure, undefined);
    assert.match(seen.at(-1) ?? '', /apricot.*once more/);
    assert.equal(readFileSync(join(folder, 'note.txt'), 'utf8'), 'hello\nhello\n');
    assert.equal(tokensSpent(second.usage), tokensSpent(first.usage));
    assert.equal(second.usage.cache_read, 500);

    const endless = fakeContext(folder);
    const asked = model.requests.length;
    const running = again.start(taskOf('Think for ever.'), endless).outcome;
    await model.request(asked);
    endless.stop(new Error('the deadline came'));
    assert.equal((await running).ending, 'stopped');
    assert.equal(isAlive(endless.pids[0]!), false);

    rmSync(join(home, '.codex', 'sessions'), { recursive: true });
    const another = await again.start(taskOf('Write a note.'), fakeContext(folder)).outcome;
    assert.equal(another.text, 'Written.');
    assert.match(another.warnings?.join() ?? '', /not found; a new one was started/);
    assert.equal(tokensSpent(another.usage), tokensSpent(first.usage));
  } finally {
    rmSync(top, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
});
