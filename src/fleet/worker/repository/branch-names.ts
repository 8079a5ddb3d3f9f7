/**
 * Names of branches for the work of conversations, as a repository can have them: git holds a branch `a` or branches `a/…`,
 * never both, and a branch can be checked out in one worktree.
 */
import { git } from './git.ts';

/** Numbers that are tried for one conversation. */
const MAX_NAMES = 16;

export interface BranchNames {
  /** Existing branches of this conversation, the preferred one first. */
  readonly existing: readonly string[];
  /** Names that can be taken, the preferred one first. */
  readonly free: readonly string[];
}

/**
 * `name` has letters, digits and `-` only. Names that differ from others by case alone count as taken: some file systems see no
 * difference.
 */
export async function branchNames(repository: string, name: string): Promise<BranchNames> {
  const [below, beside] = [`refs/heads/handfast/${name}`, `refs/heads/handfast-${name}`];
  // In brackets it is a pattern, which means this branch and none below it.
  const patterns = [
    'refs/heads/[h]andfast',
    below,
    `${below}-*`,
    `${below}-*/**`,
    beside,
    `${beside}-*`,
    `${beside}-*/**`,
  ];
  const found = await git(repository, ['for-each-ref', '--ignore-case', '--format=%(refname:lstrip=2)', ...patterns]);
  const branches = found.split('\n').filter((branch) => branch !== '');
  const taken = branches.map((branch) => branch.toLowerCase());
  const all = wanted(name);
  return {
    existing: all.filter((candidate) => branches.includes(candidate)),
    free: all.filter((candidate) => !taken.some((branch) => inTheWay(branch, candidate))),
  };
}

/** True for a branch of this name, for one that would have to be its folder, and for one in a folder of this name. */
const inTheWay = (branch: string, name: string): boolean =>
  branch === name || name.startsWith(`${branch}/`) || branch.startsWith(`${name}/`);

function wanted(name: string): readonly string[] {
  const numbered = Array.from({ length: MAX_NAMES }, (_, index) => (index === 0 ? name : `${name}-${index + 1}`));
  return [...numbered.map((one) => `handfast/${one}`), ...numbered.map((one) => `handfast-${one}`)];
}
