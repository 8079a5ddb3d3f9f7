/**
 * The members of `options` of the `env` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults of
 * absent members.
 */
import {
  anything,
  choice,
  group,
  integer,
  list,
  optional,
  path,
  program,
  text,
  variable,
} from '../../config/shared.schema.ts';

export const options = group('Environments with the Gymnasium contract.', {
  max_episodes: optional(
    integer('Episodes of one session at once; the oldest that has ended makes room. Default 256.', [1, 10_000]),
  ),
  max_principal_episodes: optional(
    integer('Episodes of one principal at once, in all its sessions. Default 1,024.', [1, 100_000]),
  ),
  stored_steps: optional(
    integer('Transitions of an episode that can be read again, the newest. Default 1,000.', [0, 1_000_000]),
  ),
  stored_bytes: optional(integer('Their size in bytes, estimated. Default 256 KiB.', [0, 1024 * 1024 * 1024])),
  gym: optional(
    list(
      {
        description:
          'Environments of Gymnasium, each in a process of your Python. They run code: a principal needs a grant that names them.',
        example: ['gym:', '  - { name: CartPole-v1, python: ./venv/bin/python }'],
      },
      group(
        { description: 'One environment.', short: 'name' },
        {
          name: text('The id that gymnasium.make gets.', 'the id of an environment', 'CartPole-v1'),
          id: optional(text('The env_name. Default: gym/ and the name.', 'the id of an environment')),
          make: optional(anything('Keyword arguments of gymnasium.make.')),
          module: optional(text('A module that is imported first, because it registers the environment.', 'a module')),
          python: optional(program('The Python that has gymnasium. Default python3.')),
          inherits: optional(
            list('Variables that the process inherits, beside PATH, HOME and the like.', variable('A variable.')),
          ),
        },
      ),
    ),
  ),
  gym_processes: optional(integer('Processes of Python at once. Default 16.', [1, 1024])),
  gym_reply_ms: optional(
    integer('Longest wait for a reply of Python; then its process is killed. Default 60,000.', [10, 86_400_000]),
  ),
  durability: optional(
    choice(
      'The part of an episode that outlives the host where the reset names none: nothing, episodes that have ended, or every step. Left out: nothing, and no request can ask for it.',
      ['none', 'episode', 'step'],
    ),
  ),
  max_stored_episodes: optional(
    integer('Durable episodes of one agent; the oldest that has ended makes room. Default 100.', [1, 10_000]),
  ),
  max_batch: optional(integer('Steps of one env/batch_step/req. Default 1,024.', [1, 65_536])),
  workspaces: optional(
    list(
      {
        description:
          'Tasks on files, each graded by a command. They run code: a principal needs a grant that names their id.',
        example: [
          'workspaces:',
          '  - { id: workspace/add, task: Make the test pass, folder: tasks/add, check: [node, --test], protected: [test] }',
        ],
      },
      group(
        { description: 'One task.', short: 'id' },
        {
          id: text('The env_name.', 'the id of an environment', 'workspace/add'),
          task: text('The task of the agent.', 'a sentence'),
          folder: path('The files of the task. The folder is never changed.'),
          check: list('The command that grades, and its arguments; exit code 0 passes.', text('A word.', 'a word')),
          protected: optional(
            list('Files and folders that the agent cannot change: its tests.', text('A relative path.', 'a path')),
          ),
          timeout_ms: optional(integer('Longest run of the command. Default 60,000.', [10, 86_400_000])),
          max_steps: optional(integer('Steps of an episode. Default 50.', [1, 100_000])),
          inherits: optional(
            list('Variables that the command inherits, beside PATH and the like.', variable('A variable.')),
          ),
        },
      ),
    ),
  ),
});
