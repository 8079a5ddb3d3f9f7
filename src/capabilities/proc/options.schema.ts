/**
 * What `options` of the `proc` plugin may hold in `handfast.yaml`; never imported at run time. What is left out here is left
 * to the plugin, which has its own defaults.
 */
import { group, integer, list, optional, text, variable } from '../../config/shared.schema.ts';

export const options = group('Programs that agents run, with the rights of the host and outside any sandbox.', {
  programs: optional(
    list(
      'The programs that may run, for principals whose grant names none. Default none.',
      text('A program, or a program and a pattern for each argument.', 'a program with patterns', '"git log **"'),
    ),
  ),
  pass_env: optional(
    list('Variables of the host that its programs get, beside PATH, HOME, LANG and the like.', variable('A name.')),
  ),
  max_processes: optional(integer('Running processes of one principal. Default 16.', [1, 65_536])),
  max_ended: optional(integer('Ended processes of one agent that can still be read. Default 64.', [1, 10_000])),
  ring_bytes: optional(
    integer('Bytes of output that are stored for each process. Default 1 MiB.', [4_096, 64 * 1024 ** 2]),
  ),
  max_seconds: optional(integer('Longest run of a process, in seconds. Default none.', [1, 31_536_000])),
});
