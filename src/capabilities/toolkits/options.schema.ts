/**
 * The members of `options` of the `toolkits` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults
 * of absent members.
 */
import { choice, group, list, optional, path, risk, text, toolPattern, variable } from '../../config/shared.schema.ts';
import { Type } from '../../wire/schema.ts';

const kit = group('A toolkit.', {
  name: choice('Which one.', ['filesystem', 'git', 'http', 'process', 'search', 'sqlite']),
  enabled: optional(
    Type.Boolean({ description: 'On in every session, without being asked. Default: filesystem and search are.' }),
  ),
  deferred: optional(
    Type.Boolean({
      description: 'Its tools are left out of plain lists until a search has found them. Default false.',
    }),
  ),
});

const secret = group(
  { description: 'A secret of this host.', either: ['env', 'file'] },
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][\\w.-]{0,63}$',
      expected: 'a name of 1 to 64 letters, digits, ".", "_" or "-"',
      description: 'Its name in configurations of toolkits.',
    }),
    env: optional(variable('The variable that holds it.', 'GITHUB_TOKEN')),
    file: optional(path('Or the file with it, read whenever it is used.', './github.token')),
    origins: optional(
      list(
        'Where it may be sent.',
        text('An origin.', 'an origin such as https://api.example.com', 'https://api.github.com'),
      ),
    ),
  },
);

export const options = group('Toolkits: bundles of tools that each session configures, enables and disables.', {
  toolkits: optional(
    list(
      {
        description: 'Which toolkits there are. Default: filesystem, search and sqlite.',
        example: '[{ name: filesystem }, { name: search, deferred: true }]',
      },
      kit,
    ),
  ),
  git: optional(
    group('For the toolkit git.', {
      push: optional(
        Type.Boolean({ description: 'It has git_push too, for principals that may call it. Default false.' }),
      ),
    }),
  ),
  http: optional(
    group('For the toolkit http.', {
      hosts: optional(
        list(
          'Only these hosts, for every session. Default: all on the internet.',
          text('A host; * stands for any letters.', 'a host', '"*.example.com"'),
        ),
      ),
      allow_private_addresses: optional(
        Type.Boolean({ description: 'Also this machine and private networks. Default false.' }),
      ),
    }),
  ),
  sqlite: optional(
    group('For the toolkit sqlite.', {
      write: optional(
        Type.Boolean({ description: 'It has sqlite_execute too, for principals that may call it. Default false.' }),
      ),
    }),
  ),
  secrets: list({ default: [], description: 'Secrets that configurations of toolkits may name.' }, secret),
  allow: optional(list('Only these tools of toolkits, for every principal.', toolPattern)),
  deny: optional(list('Never these tools of toolkits, for any principal.', toolPattern)),
  deny_risks: optional(list('For no principal a tool of a toolkit that carries one of these flags.', risk)),
});
