/**
 * The members of `options` of the `proc` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults of
 * absent members.
 */
import { group, integer, list, optional, text, variable } from '../../config/shared.schema.ts';

export const options = group('Programs that agents run, with the rights of the host and outside any sandbox.', {
  programs: optional(
    list(
      'The programs that may run, for principals whose grant names none. Default none.',
      text(
        'A program, or a program and a pattern for each argument; in front NAME=pattern for a variable that may be set.',
        'a program with patterns',
        '"git log **"',
      ),
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
  max_output_bytes: optional(integer('Bytes of output after which a process is ended. Default none.', [1, 2 ** 50])),
  cpu_seconds: optional(
    integer('Seconds on the processor, where the system enforces them. Default none.', [1, 31_536_000]),
  ),
  memory_bytes: optional(
    integer('Private writable memory of each process, where the system enforces it. Default none.', [
      1024 ** 2,
      2 ** 50,
    ]),
  ),
  file_bytes: optional(
    integer('Size of a file that it writes, where the system enforces it. Default none.', [0, 2 ** 50]),
  ),
  open_files: optional(
    integer('Open files of each process, where the system enforces it. Default none.', [8, 1_048_576]),
  ),
  tree_memory_bytes: optional(
    integer('Memory of a process and all it starts, where control groups enforce it. Default none.', [
      1024 ** 2,
      2 ** 50,
    ]),
  ),
  tree_processes: optional(
    integer(
      'Processes and threads of a process and all it starts, where control groups enforce it. Default none.',
      [1, 1_048_576],
    ),
  ),
  max_seconds: optional(integer('Longest run of a process, in seconds. Default none.', [1, 31_536_000])),
});
