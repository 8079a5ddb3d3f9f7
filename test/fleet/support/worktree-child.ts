/** A process that makes and leaves worktrees of a repository, `node worktree-child.ts REPOSITORY HOME`. Prints the failures, as JSON. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { changesSince } from '../../../src/fleet/worker/repository/git.ts';
import { Worktrees } from '../../../src/fleet/worker/repository/worktrees.ts';

const [, , repository = '', home = ''] = process.argv;
const log = { debug() {}, info() {}, warn() {}, error() {} };
const worktrees = new Worktrees({ repository, home, now: Date.now, log });
const failures: string[] = [];
for (let round = 0; round < 3; round += 1) {
  await Promise.all(
    ['talk', 'other', `own-${process.pid}-${round}`].map(async (context) => {
      try {
        const worktree = await worktrees.open(context);
        if (context === 'talk') await writeFile(join(worktree.path, `${process.pid}-${round}`), '1');
        await worktrees.leave(worktree, await changesSince(worktree.mark));
      } catch (thrown) {
        failures.push(`${context}: ${(thrown as Error).message}`);
      }
    }),
  );
}
process.stdout.write(JSON.stringify(failures));
