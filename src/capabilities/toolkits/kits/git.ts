/**
 * The toolkit `git`: status, differences, history, blame, branches, commits and worktrees of a repository in the workspace, by
 * the git program.
 *
 * Only names, descriptions and shapes; the work is loaded with the first call (`git-run.ts`), which also prevents a repository
 * from running its code.
 */
import { pathProperty } from '../../tools/builtin/file-tools.ts';
import { type AnyTool, type Risk, tool } from '../../tools/tool.ts';
import { type AnyToolkit, defineToolkit } from '../toolkit.ts';
import type { GitCommand } from './git-run.ts';

export interface GitOptions {
  /** Offers `git_push`. Default false. */
  readonly push?: boolean | undefined;
}

type Properties = Readonly<Record<string, object>>;
type Args = Readonly<Record<string, unknown>>;

const text = (description: string) => ({ type: 'string', minLength: 1, maxLength: 1024, description });
const flag = (description: string) => ({ type: 'boolean', default: false, description });
const repository = pathProperty('The repository, or a folder in it.', '.');
const revision = text('A revision: a branch, a tag, a commit, HEAD~2. It must not begin with "-".');
const paths = {
  type: 'array',
  maxItems: 100,
  items: { type: 'string', minLength: 1, maxLength: 4096 },
  default: [],
  description: 'Only these paths, from the folder "repository".',
};

const output = {
  type: 'object',
  required: ['output', 'truncated', 'exit_code'],
  properties: {
    output: { type: 'string', description: 'The output of git.' },
    truncated: { type: 'boolean', description: 'True when it printed more.' },
    exit_code: { type: 'integer' },
    files: {
      type: 'array',
      description: 'Of git_status: each file, by the name the other tools take.',
      items: {
        type: 'object',
        required: ['path', 'state'],
        properties: {
          path: { type: 'string', description: 'From the folder of the call.' },
          state: { type: 'string', description: 'In the index and in the working tree: ".M", "A.", "R.", "??".' },
          from: { type: 'string', description: 'The name before a rename.' },
        },
      },
    },
    files_truncated: { type: 'boolean', description: 'True when more files differ.' },
  },
};

function gitTool(
  name: GitCommand,
  description: string,
  risks: readonly Risk[],
  properties: Properties,
  required: readonly string[] = [],
): AnyTool {
  return tool<Args>({
    name: `git_${name}`,
    description,
    input: { type: 'object', additionalProperties: false, required, properties: { repository, ...properties } },
    output,
    kind: 'git',
    tags: ['git', risks.includes('writes') ? 'write' : 'read'],
    risks,
    idempotent: !risks.includes('writes'),
    maxSeconds: 120,
    run: async (args, context) => (await import('./git-run.ts')).runGit(name, args, context),
  });
}

const reads: readonly Risk[] = ['reads'];
const writes: readonly Risk[] = ['reads', 'writes'];

const local: readonly AnyTool[] = [
  gitTool('status', 'The branch, and which files of a git repository are changed, staged or unknown to it.', reads, {}),
  gitTool(
    'diff',
    'The differences of a git repository as a unified diff: of what is not staged, of what is staged, or of revisions.',
    reads,
    {
      staged: flag('The changes of the next commit.'),
      from: revision,
      to: revision,
      paths,
      stat: flag('Only how many lines each file changed.'),
    },
  ),
  gitTool('log', 'The commits of a git repository, newest first: hash, author, date, subject.', reads, {
    revision,
    limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 20, description: 'Most commits.' },
    paths,
  }),
  gitTool('show', 'One commit of a git repository: its message and its differences.', reads, { revision }, [
    'revision',
  ]),
  gitTool(
    'blame',
    'Which commit last changed each line of a file of a git repository.',
    reads,
    {
      path: text('The file, from the repository.'),
      revision,
      from_line: { type: 'integer', minimum: 1, description: 'First line.' },
      to_line: { type: 'integer', minimum: 1, description: 'Last line.' },
    },
    ['path'],
  ),
  gitTool('branches', 'The local branches of a git repository with their last commits.', reads, {}),
  gitTool(
    'branch',
    'Creates a branch of a git repository, and checks it out unless told not to. Uncommitted changes stay.',
    writes,
    {
      name: text('The new branch.'),
      from: revision,
      checkout: { type: 'boolean', default: true, description: 'Check it out.' },
    },
    ['name'],
  ),
  gitTool(
    'commit',
    'Commits the named files of a git repository, or all changes of files it knows. Hooks are not run, and nothing is signed.',
    writes,
    {
      message: { type: 'string', minLength: 1, maxLength: 65_536, description: 'The message of the commit.' },
      paths: {
        ...paths,
        description: 'The files to commit, new ones too. Left out: every changed file that git knows.',
      },
    },
    ['message'],
  ),
  gitTool(
    'worktree_add',
    'Adds a worktree of a git repository: another folder of the workspace with a new branch checked out.',
    writes,
    {
      path: pathProperty('The new folder; it must not exist.'),
      branch: text('The new branch.'),
      from: revision,
    },
    ['path', 'branch'],
  ),
  gitTool('worktree_list', 'The worktrees of a git repository.', reads, {}),
  gitTool(
    'worktree_remove',
    'Removes a worktree of a git repository that has no uncommitted changes. Files that git ignores go with it, and are named.',
    ['reads', 'writes', 'destructive'],
    {
      path: pathProperty('Its folder.'),
    },
    ['path'],
  ),
];

const push = gitTool(
  'push',
  'Pushes a branch to a remote of a git repository. Never forced. Never asks for a password.',
  ['reads', 'network', 'destructive'],
  {
    remote: { ...text('A remote that the repository has, by its name.'), default: 'origin' },
    branch: text('The branch.'),
  },
  ['branch'],
);

/** Returns the toolkit; it includes pushing only if the host allows it. */
export const git = ({ push: mayPush = false }: GitOptions = {}): AnyToolkit =>
  defineToolkit({
    name: 'git',
    description: 'Git repositories of the workspace: status, diff, log, blame, branch, commit, worktree',
    category: 'code',
    tags: ['git', 'code'],
    tools: mayPush ? [...local, push] : local,
  });
