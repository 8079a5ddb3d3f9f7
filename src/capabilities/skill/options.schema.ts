/**
 * The members of `options` of the `skill` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults of
 * absent members.
 */
import { choice, group, integer, list, MIB, mapOf, optional, path } from '../../config/shared.schema.ts';
import { Type } from '../../wire/schema.ts';

export const options = group('Skills: folders with a SKILL.md, whose code runs in a sandbox.', {
  roots: optional(
    list(
      'Folders with skills; of two skills of one name and version that of the first counts. To name a folder is to trust it. Default: skills in the data folder, and ~/.agents/skills.',
      path('A folder.', './skills'),
    ),
  ),
  pins: optional(
    mapOf(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        expected: 'a digest of 64 hexadecimal digits',
        description: 'A digest.',
      }),
      { pattern: '^[a-z0-9]+(?:-[a-z0-9]+)*$', expected: 'the name of a skill' },
      { description: 'Skills that run only with these files: name → digest, as handfast skill check prints it.' },
    ),
  ),
  tier: optional(
    choice(
      'The sandbox that the code of skills runs in. Where it does not work, skills with code do not run. Default quickjs.',
      ['quickjs', 'process', 'bubblewrap'],
    ),
  ),
  view: optional(
    choice('Of the tier bubblewrap: what skills may read beside the files of the system. Default none.', [
      'none',
      'workspace',
    ]),
  ),
  memory_bytes: optional(integer('Memory of a run. Default 64 MiB.', [8 * MIB, 2 ** 40])),
  max_seconds: optional(integer('Longest run. Default 300.', [1, 86_400])),
  max_result_chars: optional(
    integer('Characters of a result, or of any other message of a skill. Default 1 MiB.', [1_024, 64 * MIB]),
  ),
  max_printed_chars: optional(integer('Characters that a run may print. Default 64 KiB.', [0, 16 * MIB])),
  max_context_chars: optional(
    integer('Characters of instructions and files that a skill without code returns. Default 64 KiB.', [
      1_024,
      16 * MIB,
    ]),
  ),
  max_calls: optional(integer('Calls of tools of one run. Default 1000.', [0, 1_000_000])),
  max_events: optional(integer('Events of one run. Default 10000.', [0, 1_000_000])),
  max_runs: optional(integer('Runs of one principal at once. Default 8.', [1, 1_024])),
  warm: optional(integer('Sandboxes that wait for their skill. Default 1.', [0, 16])),
});
