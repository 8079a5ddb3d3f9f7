/**
 * The tools that reach out of the workspace: `http_get` to the internet, `shell` to the programs of the host.
 *
 * Only names, descriptions and shapes; the work is loaded with the first call. Both are functions, because a host decides how
 * far they reach.
 */
import type { AddressRules } from '../../../base/http/checked-request.ts';
import { type AnyTool, tool } from '../tool.ts';
import { pathProperty } from './file-tools.ts';
import type { HttpGetArgs } from './http-get.ts';
import type { ShellArgs, ShellSettings } from './shell.ts';

/** Fetches a URL. Only addresses of the public internet unless `settings.addressAllowed` says otherwise. */
export function httpGet(settings: AddressRules = {}): AnyTool {
  return tool({
    name: 'http_get',
    description:
      'Fetches an http or https URL with GET (or only its headers with HEAD) and returns status, headers and the body as ' +
      'text, or as base64 when it is binary. Up to 5 redirects are followed. A status such as 404 is a result, not an ' +
      'error. Addresses of private networks are refused.',
    input: {
      type: 'object',
      additionalProperties: false,
      required: ['url'],
      properties: {
        url: {
          type: 'string',
          minLength: 1,
          maxLength: 8192,
          description: 'Absolute http or https URL, without user name and password.',
        },
        method: {
          type: 'string',
          enum: ['GET', 'HEAD'],
          default: 'GET',
          description: 'HEAD fetches only the headers.',
        },
        max_bytes: {
          type: 'integer',
          minimum: 1,
          maximum: 524_288,
          default: 262_144,
          description: 'Most bytes of the body to return, after decompression.',
        },
        timeout_seconds: {
          type: 'number',
          minimum: 0.1,
          maximum: 300,
          default: 30,
          description: 'Seconds for the whole fetch, redirects included.',
        },
      },
    },
    output: {
      type: 'object',
      required: ['url', 'status', 'content_type', 'headers', 'redirects', 'bytes', 'truncated'],
      properties: {
        url: { type: 'string', description: 'Where the answer came from, after redirects.' },
        status: { type: 'integer' },
        content_type: { type: 'string' },
        headers: { type: 'object', additionalProperties: { type: 'string' } },
        redirects: { type: 'array', items: { type: 'string' } },
        text: { type: 'string' },
        base64: { type: 'string' },
        bytes: { type: 'integer', description: 'Bytes of the body returned.' },
        truncated: { type: 'boolean', description: 'True when the body is longer than `max_bytes`.' },
      },
    },
    kind: 'http',
    tags: ['network', 'http', 'read'],
    risks: ['network'],
    idempotent: true,
    run: async (args: HttpGetArgs, context) => (await import('./http-get.ts')).fetchUrl(args, context, settings),
  });
}

/** Runs programs of the host. No sandbox: a host that offers it trusts its callers with the rights of the host's user. */
export function shell(settings: ShellSettings = {}): AnyTool {
  return tool({
    name: 'shell',
    description:
      'Runs a program in the workspace and waits until it ends. Give either `command`, run by /bin/sh, or `argv`, run ' +
      'directly without a shell. There is no terminal and, without `stdin`, no input. Output is streamed as it comes; of ' +
      'long output the beginning and the end are returned. A failing program is a result: look at `exit_code`. At the ' +
      'end, and at the time limit, everything the program started is ended too, also in the background.',
    input: {
      type: 'object',
      additionalProperties: false,
      properties: {
        command: { type: 'string', minLength: 1, maxLength: 131_072, description: 'A command line for /bin/sh.' },
        argv: {
          type: 'array',
          minItems: 1,
          maxItems: 4096,
          items: { type: 'string' },
          description: 'Program and arguments, passed on exactly as given.',
        },
        cwd: pathProperty('The directory to run in.', '.'),
        env: {
          type: 'object',
          maxProperties: 64,
          additionalProperties: { type: 'string', maxLength: 32_768 },
          default: {},
          description:
            'Environment variables to add: LANG, LC_*, TERM, TZ, NO_COLOR, CI and the like, and those that the user was granted. ' +
            'Those that change what programs run or load (PATH, LD_*, …) are refused.',
        },
        stdin: { type: 'string', description: 'Text for the standard input.' },
        timeout_seconds: {
          type: 'number',
          minimum: 0.1,
          maximum: 3600,
          default: 120,
          description: 'Seconds after which the program is ended.',
        },
        max_output_bytes: {
          type: 'integer',
          minimum: 256,
          maximum: 262_144,
          default: 65_536,
          description: 'Most bytes to return of each of stdout and stderr; the middle is left out first.',
        },
      },
    },
    output: {
      type: 'object',
      required: [
        'exit_code',
        'signal',
        'timed_out',
        'stdout',
        'stderr',
        'stdout_bytes',
        'stderr_bytes',
        'truncated',
        'background_ended',
        'duration_ms',
      ],
      properties: {
        exit_code: {
          type: 'integer',
          description: '0 is success; 128 plus its number when a signal ended the program.',
        },
        signal: { type: ['string', 'null'] },
        timed_out: { type: 'boolean' },
        stdout: { type: 'string', description: 'Bytes that are not UTF-8 show as U+FFFD.' },
        stderr: { type: 'string' },
        stdout_bytes: { type: 'integer' },
        stderr_bytes: { type: 'integer' },
        truncated: { type: 'boolean' },
        background_ended: { type: 'boolean', description: 'True when processes left in the background were ended.' },
        descendants: {
          enum: ['ended', 'may_survive'],
          description:
            'Only after a timeout. ended: all that the program started has ended. may_survive: that cannot be said, e.g. when a process cleared its environment and left its session.',
        },
        duration_ms: { type: 'integer' },
        by: {
          enum: ['editor'],
          description: 'Present where it ran in a terminal of an editor; stdout then has both streams.',
        },
      },
    },
    kind: 'shell',
    tags: ['exec', 'shell'],
    risks: ['exec', 'reads', 'writes', 'destructive', 'network'],
    async run(args: ShellArgs, context) {
      if (context.editor?.terminals) {
        const { terminalsFor, runInTerminal } = await import('./terminal-shell.ts');
        const editor = terminalsFor(context, args);
        if (editor !== undefined) return runInTerminal(args, context, editor);
      }
      return (await import('./shell.ts')).runShell(args, context, settings);
    },
  });
}
