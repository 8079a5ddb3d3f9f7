/**
 * The toolkit `http`: requests to the internet, with a secret that only its own origins get.
 *
 * The implementation is that of `http_get`, loaded with the first call: addresses of private networks are refused, and the
 * connection goes to the checked address.
 */
import { named } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import type { HttpGetArgs, HttpGetSettings } from '../../tools/builtin/http-get.ts';
import { type AnyTool, type Risk, tool } from '../../tools/tool.ts';
import { failure } from '../errors.ts';
import { type AnyToolkit, defineToolkit, type ToolkitAccess } from '../toolkit.ts';

export interface HttpOptions {
  /** Only these hosts, for every session; `*` stands for any letters. Default: all public ones. */
  readonly hosts?: readonly string[] | undefined;
  /** Allows this machine and private networks, too. Default false. */
  readonly allowPrivateAddresses?: boolean | undefined;
  /** Resolves a host name. Default: the system's resolver. */
  readonly resolve?: HttpGetSettings['resolve'] | undefined;
}

interface HttpConfig {
  readonly hosts?: readonly string[];
  readonly secret?: string;
  readonly secret_header: string;
  readonly secret_prefix: string;
}

interface RequestArgs extends Omit<HttpGetArgs, 'method'> {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Headers that a caller may not set: they decide the destination, the framing or the sender of a request. */
const NOT_SET =
  /^(host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|keep-alive|cookie|authorization|proxy-.*|x-forwarded-.*|forwarded)$/i;

const headers = {
  type: 'object',
  maxProperties: 32,
  propertyNames: { pattern: '^[A-Za-z0-9-]{1,64}$' },
  additionalProperties: { type: 'string', maxLength: 4096, pattern: '^[\\t\\x20-\\x7e]*$' },
  default: {},
  description: 'Headers. Authorization, Cookie and those of the connection cannot be set.',
};

function requestTool(
  access: ToolkitAccess<HttpConfig>,
  options: HttpOptions,
  name: string,
  about: string,
  methods: readonly string[],
  risks: readonly Risk[],
): AnyTool {
  const sends = methods.includes('POST');
  return tool<RequestArgs>({
    name,
    description: `${about} Returns status, headers and the body as text, or as base64 when it is binary. A status such as 404 is a result. Private networks are refused.`,
    input: {
      type: 'object',
      additionalProperties: false,
      required: ['url'],
      properties: {
        url: { type: 'string', minLength: 1, maxLength: 8192, description: 'Absolute http or https URL.' },
        method: { type: 'string', enum: methods, default: methods[0], description: 'The method.' },
        headers,
        ...(sends && { body: { type: 'string', maxLength: 1_048_576, description: 'The body, as text.' } }),
        max_bytes: {
          type: 'integer',
          minimum: 1,
          maximum: 524_288,
          default: 262_144,
          description: 'Most bytes of the body to return.',
        },
        timeout_seconds: {
          type: 'number',
          minimum: 0.1,
          maximum: 300,
          default: 30,
          description: 'Seconds for the whole request.',
        },
      },
    },
    kind: 'http',
    tags: ['http', 'network'],
    risks,
    idempotent: !sends,
    async run({ headers: given = {}, ...args }, context) {
      const refused = Object.keys(given).find((header) => NOT_SET.test(header));
      if (refused !== undefined) {
        throw fail('tool_denied', `the header ${refused} cannot be set`, { reason: 'header_refused', header: refused });
      }
      const { hosts, secret_header, secret_prefix } = access.config(context);
      const secret = access.secret(context, 'secret');
      if (secret !== undefined && secret.origins.length === 0) {
        throw failure(
          'secret',
          'the secret names no origins that it may be sent to; the configuration of the host sets them',
        );
      }
      const first = URL.parse(args.url)?.origin;
      const settings: HttpGetSettings = {
        ...(options.resolve && { resolve: options.resolve }),
        ...(options.allowPrivateAddresses === true && { addressAllowed: () => true }),
        hostAllowed: ({ hostname }) =>
          (options.hosts === undefined || named(options.hosts, hostname)) &&
          (hosts === undefined || named(hosts, hostname)),
        headersFor: ({ origin }) => ({
          // Headers that a caller wrote for one server must not reach another.
          ...(origin === first && given),
          ...(secret?.origins.includes(origin) && { [secret_header]: `${secret_prefix}${secret.value}` }),
        }),
      };
      return (await import('../../tools/builtin/http-get.ts')).fetchUrl(args as HttpGetArgs, context, settings);
    },
  });
}

export const http = (options: HttpOptions = {}): AnyToolkit =>
  defineToolkit<HttpConfig>({
    name: 'http',
    description: 'Requests over http and https to the internet',
    category: 'network',
    tags: ['http', 'network'],
    config: {
      type: 'object',
      additionalProperties: false,
      properties: {
        hosts: {
          type: 'array',
          maxItems: 100,
          items: { type: 'string', minLength: 1, maxLength: 253 },
          description: 'Only these hosts; * stands for any letters.',
        },
        secret: {
          type: 'string',
          format: 'secret',
          description: 'The name of a secret, sent to its own origins alone.',
        },
        secret_header: {
          type: 'string',
          pattern: '^(Authorization|X-[A-Za-z0-9-]{1,60}|[A-Za-z]+-(Key|Token))$',
          default: 'Authorization',
          description: 'The header that holds it.',
        },
        secret_prefix: {
          type: 'string',
          maxLength: 32,
          pattern: '^[\\x20-\\x7e]*$',
          default: 'Bearer ',
          description: 'The text before it.',
        },
      },
    },
    tools: (access) => [
      requestTool(access, options, 'http_fetch', 'Fetches a URL with GET or HEAD.', ['GET', 'HEAD'], ['network']),
      requestTool(
        access,
        options,
        'http_send',
        'Sends a request that changes something: POST, PUT, PATCH or DELETE.',
        ['POST', 'PUT', 'PATCH', 'DELETE'],
        ['network', 'destructive'],
      ),
    ],
  });
