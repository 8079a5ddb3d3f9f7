/**
 * A running fleet for tests of the command line: an orchestrator with its workers and a repository, as its user has them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gitEnvironment } from '../fleet/support/git-repository.ts';
import { type Command, type Json, User } from './command.ts';

/** The owner that ends things: a test, or the hooks of a file. */
export interface Ends {
  after(end: () => Promise<void>): void;
}

/** A running fleet, and its user. */
export interface Fleet {
  readonly user: User;
  readonly up: Command;
  /** Its output when it was ready. */
  readonly ready: Json;
  /** The repository its workers work in. */
  readonly repo: string;
  /** Starts it again. */
  again(): Promise<Command>;
  /** Returns the document of a command that must succeed. */
  json(...words: string[]): Promise<Json>;
}

/** Makes a repository with one commit; returns its folder. */
export function newRepository(repo: string): string {
  mkdirSync(repo);
  writeFileSync(join(repo, 'README.md'), 'one\ntwo\n');
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.invalid', ...words], {
      cwd: repo,
      env: gitEnvironment(),
    });
  git('init', '--quiet', '--initial-branch=main');
  git('add', '.');
  git('commit', '--quiet', '-m', 'first');
  return repo;
}

/**
 * Starts a fleet with a small and a large worker in one repository.
 *
 * @param settings more of its file
 * @param workers more workers, as lines of its file
 */
export async function fleet(t: Ends, { settings = '', workers = '' } = {}): Promise<Fleet> {
  const user = new User();
  t.after(() => user.leave());
  const repo = newRepository(join(user.cwd, 'repo'));
  const file = user.write(
    'fleet.yaml',
    `name: trial
listen: [ http://127.0.0.1:0, unix://fleet.sock ]
join_grace_s: 1
workers:
  - { id: small, executor: rehearsal, repo: repo, tier: haiku, overhead_tokens: 0 }
  - { id: large, executor: rehearsal, repo: repo, tier: opus, overhead_tokens: 0, max_concurrent: 1 }
${workers}
${settings}`,
  );
  const again = async (): Promise<Command> => {
    const command = user.start(['fleet', 'up', file, '--json']);
    await command.says('"ready":true');
    return command;
  };
  const up = await again();
  return {
    user,
    up,
    ready: JSON.parse(up.stdout),
    repo,
    again,
    async json(...words) {
      const { code, stdout, stderr } = await user.run([...words, '--json']);
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    },
  };
}
