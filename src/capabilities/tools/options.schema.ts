/**
 * The members of `options` of the `tools` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults of
 * absent members.
 */
import { group, integer, list, optional, risk, toolPattern } from '../../config/shared.schema.ts';
import { Type } from '../../wire/schema.ts';

export const options = group('The built-in file, search, web and shell tools.', {
  shell: optional(
    Type.Boolean({
      description:
        'False leaves out the tool that runs programs, with the rights of the host and outside any sandbox. Default true.',
    }),
  ),
  allow_private_addresses: optional(
    Type.Boolean({ description: 'Let the web tool reach this machine and private networks.' }),
  ),
  allow: optional(list('Only these tools, for every principal.', toolPattern)),
  deny: optional(list('Never these tools, for any principal.', toolPattern)),
  deny_risks: optional(list('For no principal a tool that carries one of these flags.', risk)),
  max_seconds: optional(integer('Timeout of a call whose caller set none, in seconds. Default 600.', [1, 86_400])),
});
