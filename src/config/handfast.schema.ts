/**
 * `handfast.yaml` as one schema, composed of its sections: the static type, the reader, the defaults, the JSON Schema
 * in `schema/config.json`, the template of `handfast init` and the limits table of SECURITY.md come from here.
 *
 * `npm run generate` writes it as data (`handfast.generated.ts`); nothing imports this file at run time. Rules that
 * depend on several settings, on other files or on the environment are in `config.ts`.
 */
import { type Static, Type } from '../wire/schema.ts';
import { control, providers } from './control.schema.ts';
import { audit, auth, type BuiltinPlugins, http, journal, limits, plugins } from './host.schema.ts';
import { ADDRESS_FORMS } from './listen-address.ts';
import type { Settings } from './setting.ts';
import { flag, group, list, optional, path } from './shared.schema.ts';

/** Returns the schema, with the capabilities that come with Handfast. */
export const handfast = (builtin: BuiltinPlugins) =>
  group('Configuration of a Handfast host.', {
    host_id: Type.String({
      default: 'handfast',
      shown: true,
      pattern: '^[A-Za-z0-9][\\w.-]{0,63}$',
      expected: 'a name of 1 to 64 letters, digits, ".", "_" or "-"',
      description: 'The name of this host, in logs, the audit and the names of its own files.',
    }),
    workspace: optional(
      path(
        'The folder the file tools are confined to. Left out: the folder of this file.',
        '.',
        'the path of a folder',
      ),
    ),
    listen: list(
      {
        default: ['http://127.0.0.1:4700'],
        shown: true,
        minItems: 1,
        description: `Where to accept connections: ${ADDRESS_FORMS}. HTTP serves WebSocket, session RPC and MCP too.`,
      },
      Type.String({ format: 'listen_address', description: 'A listen address.' }),
    ),
    insecure_bind: flag(
      'Allows addresses other machines can reach, although connections are not encrypted. They need a token as well. Better: stay on loopback behind a reverse proxy with TLS.',
      false,
    ),
    http,
    auth,
    limits,
    journal,
    audit,
    plugins: plugins(builtin),
    control,
    providers,
  });

/** The settings of the file, with every default. */
export type HandfastSettings = Settings<Static<ReturnType<typeof handfast>>>;
