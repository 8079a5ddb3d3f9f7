/**
 * Programs that run code of another language: their code stands in a file, which is not looked into, or in the line, which
 * cannot be read. Code of `sed` and `awk` is read as far as it may start a program. Pure.
 */

import { posix } from 'node:path';
import { list, mayBeOption, wordFor } from './options.ts';
import { withoutVersion } from './program-version.ts';
import type { Word } from './shell-syntax.ts';

/** Place of the code of an interpreter. */
export type Code =
  /** None: it prints its version, or does nothing else. */
  | { readonly kind: 'none' }
  /** The code is in a file. */
  | { readonly kind: 'file'; readonly file: Word; readonly loaded?: readonly Word[] }
  /** The code is in a module that is a program too, which these words start: `python -m pytest`. */
  | { readonly kind: 'program'; readonly words: readonly Word[] }
  /** The code is in the line or in its input, in a language that is not read. */
  | { readonly kind: 'hidden' };

interface Interpreter {
  /** Options whose value is code, or after which code follows; of one letter also among other letters. */
  readonly code: string;
  /** Options that take the next word. */
  readonly values?: string;
  /** With these there need be no file. */
  readonly shows?: string;
  /** Letters after which a word has no further options. */
  readonly stops?: string;
  /** Longer options that stand alone; behind others a value may follow. */
  readonly flags?: RegExp;
  /** Words in place of a file, with which it reads code from the input. */
  readonly verbs?: string;
}

/** Longest script that is read, in characters. */
const MAX_SCRIPT = 4096;

const VERSION = '--version --help -h';

const INTERPRETERS: Readonly<Record<string, Interpreter>> = {
  python: { code: '-c -i', values: '-W -X -Q --check-hash-based-pycs', shows: `-V -VV ${VERSION}`, stops: 'WXQm' },
  node: {
    code: '-e --eval -p --print -i --interactive',
    values:
      '-r --require --import --loader --experimental-loader -C --conditions --env-file --env-file-if-exists --title --test-name-pattern --test-skip-pattern --test-reporter --test-reporter-destination --test-concurrency --test-timeout --test-shard --test-isolation --watch-path --inspect-port --stack-trace-limit --input-type --unhandled-rejections --disable-warning --diagnostic-dir --redirect-warnings --trace-event-categories --dns-result-order --max-http-header-size --icu-data-dir --localstorage-file --network-family-autoselection-attempt-timeout',
    shows: `-v --test --run --v8-options --completion-bash ${VERSION}`,
    stops: 'rC',
    flags:
      /^--(?:no-[\w-]+|check|enable-source-maps|experimental-(?:strip-types|transform-types|vm-modules|sqlite|webstorage|eventsource|websocket|wasm-modules|import-meta-resolve|test-coverage|test-module-mocks|require-module|detect-module)|trace-(?:warnings|uncaught|deprecation|exit|sigint|sync-io|exceptions)|throw-deprecation|pending-deprecation|expose-gc|watch|watch-preserve-output|inspect|inspect-brk|inspect-wait|abort-on-uncaught-exception|preserve-symlinks|preserve-symlinks-main|permission|allow-(?:child-process|worker|addons|wasi|net)|frozen-intrinsics|cpu-prof|heap-prof|prof|test-(?:only|update-snapshots|force-exit)|use-(?:system-ca|openssl-ca|bundled-ca)|disable-sigusr1|insecure-http-parser|force-fips|report-on-\w+)$/,
    verbs: 'inspect debug',
  },
  perl: { code: '-e -E -m -M -x -d', values: '-I', shows: '-v -V', stops: 'I0iFCD' },
  ruby: { code: '-e', values: '-I -r -C -E', shows: `-v ${VERSION}`, stops: 'IrCEiFK0T' },
  php: {
    code: '-r -B -R -E -a -d --run --process-begin --process-code --process-end --define --interactive',
    values: '-c -t -S -z',
    shows: `-v -m -i ${VERSION}`,
    stops: 'cfFtSz',
  },
  lua: { code: '-e -i', values: '-l', shows: '-v', stops: 'l' },
  rscript: { code: '-e', shows: VERSION },
  julia: { code: '-e --eval -E --print -i', values: '-J -t -p --project', shows: `-v ${VERSION}`, stops: 'JtpCO' },
  groovy: { code: '-e', values: '-cp -classpath', shows: `-v ${VERSION}` },
  scala: { code: '-e', values: '-cp', shows: VERSION },
  elixir: { code: '-e --eval --rpc-eval --erl', values: '-r -S', shows: `-v ${VERSION}` },
  racket: { code: '-e --eval', values: '-l -t -u', shows: `-v ${VERSION}` },
  guile: { code: '-c', values: '-l -L -C', shows: `-v ${VERSION}` },
  tclsh: { code: '' },
  osascript: { code: '-e', values: '-l' },
};
const SAME: Readonly<Record<string, string>> = {
  nodejs: 'node',
  pypy: 'python',
  luajit: 'lua',
  raku: 'perl',
  tsx: 'node',
  'ts-node': 'node',
};

/** Modules of Python that run no code of the line. */
const MODULES =
  /^(?:venv|virtualenv|unittest|http\.server|json\.tool|build|twine|ensurepip|compileall|zipfile|tarfile|py_compile|site|sysconfig|platform|sphinx|django|doctest|ast|tokenize|base64|calendar|this|webbrowser|pydoc)$/;
/** Modules that are programs too, with these names. */
const PROGRAMS =
  /^(?:pip|pytest|mypy|black|ruff|isort|flake8|pylint|coverage|pipx|poetry|uv|tox|nox|mkdocs|flask|uvicorn|gunicorn|pre_commit|pyright|bandit)$/;
/** `-F` of `perl` with a pattern that runs no code. */
const SAFE_SPLIT = /^-[a-zA-Z]*F(?:[^/"'].*|\/[\w\s:,;|.+*\\-]*\/)?$/s;

/** Input of the command that is named like a file. */
const INPUT = /^\/+(?:dev(?!\/null$)|proc)\/|(?:^|\/)(?:stdin|fd\/\d+)$/;
export const isInput = ({ value }: Word): boolean =>
  value !== undefined && (value === '-' || INPUT.test(posix.normalize(value)));

/** Returns the name by which an interpreter is known: `python3.12` is `python`. */
export function interpreterOf(program: string): string | undefined {
  const name = withoutVersion(program);
  const known = SAME[name] ?? name;
  return Object.hasOwn(INTERPRETERS, known) ? known : undefined;
}

/** Returns the place of an interpreter's code. */
export function codeOf(interpreter: string, words: readonly Word[]): Code {
  const { stops = '', flags, verbs, ...options } = INTERPRETERS[interpreter] as Interpreter;
  const [code, values, shows] = [list(options.code), list(options.values), list(options.shows)];
  const isCode = ({ value = '' }: Word): boolean =>
    code.includes(value.split('=')[0] ?? '') ||
    (/^-[^-]./.test(value) && beforeStop(value, stops).some((one) => code.includes(one)));
  const loaded: Word[] = [];
  let known = true;
  let shown = false;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as Word;
    const { value } = word;
    if (value === undefined) return mayBeOption(word) ? { kind: 'hidden' } : { kind: 'file', file: word };
    if (isCode(word) || isInput(word) || /^data:|=data:/.test(value)) return { kind: 'hidden' };
    if (interpreter === 'perl' && /^-[a-zA-Z]*F/.test(value) && !SAFE_SPLIT.test(value)) return { kind: 'hidden' };
    if (interpreter === 'python' && /^-[a-zA-Z]*m/.test(value)) {
      const inside = value.replace(/^-[a-zA-Z]*m/, '');
      return moduleOf(inside || words[at + 1]?.value, words.slice(inside === '' ? at + 2 : at + 1));
    }
    if (value.startsWith('-') && value !== '--') {
      if (shows.includes(value.split('=')[0] ?? '')) shown = true;
      else if (values.includes(value)) {
        const given = words[++at];
        if (given?.value === undefined || /^data:/.test(given.value)) return { kind: 'hidden' };
        loaded.push(given);
      } else {
        if (value.includes('=')) loaded.push({ ...word, value: value.replace(/^[^=]*=/, '') });
        known &&= value.includes('=') || value.length === 2 || /^-\d/.test(value) || flags?.test(value) === true;
      }
      continue;
    }
    if (value === '--') continue;
    if (list(verbs).includes(value)) return { kind: 'hidden' };
    // After an option that is not known the word may be its value, and code follow.
    if (!known && words.slice(at + 1).some((later) => isCode(later) || mayBeOption(later))) return { kind: 'hidden' };
    // `manage.py shell -c CODE`, `artisan tinker --execute=CODE`
    if (/^(?:shell|shell_plus|tinker)$/.test(words[at + 1]?.value ?? '')) return { kind: 'hidden' };
    return shown ? { kind: 'none' } : { kind: 'file', file: word, loaded };
  }
  return shown ? { kind: 'none' } : { kind: 'hidden' };
}

/** `python -m MODULE` with the words behind it. */
function moduleOf(module = '', rest: readonly Word[]): Code {
  // Profilers run the module or the file that their words name, with its options.
  if (module === 'cProfile' || module === 'profile') return codeOf('python', rest.slice(profiled(rest)));
  if (PROGRAMS.test(module)) {
    return { kind: 'program', words: [wordFor(module), ...rest] };
  }
  return MODULES.test(module) ? { kind: 'none' } : { kind: 'hidden' };
}

/** Returns the index behind the options of a profiler, which have a value each. */
function profiled(words: readonly Word[]): number {
  let at = 0;
  while (/^-[os]$/.test(words[at]?.value ?? '')) at += 2;
  return at;
}

/** Returns the options in a word of letters. */
function beforeStop(cluster: string, stops: string): string[] {
  const letters = [...cluster.slice(1)];
  const end = letters.findIndex((letter) => stops.includes(letter));
  return (end === -1 ? letters : letters.slice(0, end)).map((letter) => `-${letter}`);
}

/** Returns the scripts and the files of scripts of `sed` and `awk`; undefined where they are not known. */
function scriptsOf(
  words: readonly Word[],
  { code, files, values }: { readonly code: RegExp; readonly files: RegExp; readonly values: RegExp },
): { readonly scripts: readonly string[]; readonly files: readonly Word[] } | undefined {
  const scripts: string[] = [];
  const found: Word[] = [];
  const operands: Word[] = [];
  for (let at = 0, options = true; at < words.length; at++) {
    const word = words[at] as Word;
    const { value } = word;
    if (value === undefined && mayBeOption(word) && (operands.length === 0 || word.head.startsWith('-'))) {
      if (scripts.length === 0 && found.length === 0) return undefined;
    }
    const given = value ?? word.head;
    if (!options || !given.startsWith('-') || given === '-') {
      operands.push(word);
      continue;
    }
    if (given === '--') {
      options = false;
      continue;
    }
    const kind = [code, files, values].find((pattern) => pattern.test(given));
    if (kind === undefined) continue;
    const inside = given.replace(kind, '');
    const own = inside === '' ? words[++at] : { ...word, value: value === undefined ? undefined : inside };
    if (kind === values) continue;
    if (own?.value === undefined) return undefined;
    if (kind === code) scripts.push(own.value);
    else found.push(own);
  }
  if (scripts.length > 0 || found.length > 0) return { scripts, files: found };
  const [first] = operands;
  if (first === undefined) return { scripts, files: [] };
  return first.value === undefined ? undefined : { scripts: [first.value], files: [] };
}

/** `sed`: its commands `e` and the flag `e` of `s` run programs. */
export function sedCode(words: readonly Word[]): Code {
  // Elsewhere it may be a file, or the value of an option.
  if (words[0]?.value === '--sandbox') return { kind: 'none' };
  const code = /^(?:-[nrEsuzi]*e|--e(?:x(?:p(?:r(?:e(?:s(?:s(?:i(?:o(?:n)?)?)?)?)?)?)?)?)?(?:=|$))/;
  const files = /^(?:-[nrEsuz]*f|--fi(?:l(?:e)?)?(?:=|$))/;
  const values = /^(?:-[nrEsuz]*l|--line-length(?:=|$))/;
  const found = scriptsOf(words, { code, files, values });
  if (found === undefined || found.files.some(isInput) || found.scripts.some(sedRuns)) return { kind: 'hidden' };
  const [file] = found.files;
  return file === undefined ? { kind: 'none' } : { kind: 'file', file };
}

/** True for a script of `sed` that may run a program, or that is not understood. */
export function sedRuns(script: string): boolean {
  if (script.length > MAX_SCRIPT) return true;
  let at = 0;
  const skip = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const found = pattern.exec(script)?.[0] ?? '';
    at += found.length;
    return found;
  };
  /** A part up to its end. Versions of `sed` differ about an end within brackets. */
  const part = (end: string, isPattern = true): boolean => {
    const from = at;
    for (; at < script.length; at++) {
      if (script[at] === '\\') at++;
      else if (script[at] === end) {
        at++;
        const text = script.slice(from, at - 1);
        return !isPattern || text.lastIndexOf('[') <= text.lastIndexOf(']');
      } else if (script[at] === '\n' && isPattern) return false;
    }
    return false;
  };
  const address = (): boolean => {
    if (script[at] === '/') {
      at++;
      if (!part('/')) return false;
    } else if (script[at] === '\\' && at + 1 < script.length) {
      const end = script[at + 1] as string;
      at += 2;
      if (!part(end)) return false;
    } else if (skip(/[+~]?\d+(?:~\d+)?|\$/y) === '') return true;
    skip(/[IM]*/y);
    return true;
  };
  while (at < script.length) {
    skip(/[\s;{}]+/y);
    if (at >= script.length) break;
    if (!address()) return true;
    if (skip(/\s*,\s*/y) !== '' && !address()) return true;
    skip(/[\s!]*/y);
    const command = script[at++];
    switch (command) {
      case undefined:
        return true;
      case '#':
      case 'a':
      case 'i':
      case 'c':
        skip(/(?:[^\n\\]|\\[\s\S])*/y);
        break;
      case 'r':
      case 'R':
      case 'w':
      case 'W':
        skip(/[^\n]*/y);
        break;
      case 'b':
      case 't':
      case 'T':
      case ':':
        // Behind a blank the next command begins.
        skip(/[ \t]*[^\s;{}]*/y);
        break;
      case 's':
      case 'y': {
        const end = script[at++];
        if (end === undefined || /[\n\\]/.test(end) || !part(end) || !part(end, false)) return true;
        const flags = skip(/[gpiImMe\d]*/y);
        if (flags.includes('e') || script[at] === 'e') return true;
        if (skip(/w/y) !== '') skip(/[^\n]*/y);
        break;
      }
      case '{':
      case '}':
        continue;
      default:
        if (!/[=dDgGhHnNpPxzqQlLF]/.test(command)) return true;
        skip(/[ \t]*\d*/y);
    }
    // Without the end of a command here, the script is not understood.
    if (!/^\s*(?:$|[\n;}{#])/.test(script.slice(at, at + 200).replace(/^[ \t]+/, ''))) return true;
  }
  return false;
}

/** Options of `awk` that load nothing: an unknown one may be code. */
const AWK_OPTIONS =
  /^(?:-|--|-[bcCghkMnNOPrsStV]+|-[dLop].*|-[Fvfe].*|--(?:assign|field-separator|file|source|characters-as-bytes|traditional|copyright|dump-variables|csv|gen-pot|help|trace|lint|lint-old|bignum|non-decimal-data|use-lc-numeric|optimize|no-optimize|profile|pretty-print|posix|re-interval|sandbox|version)(?:=.*)?|--(?:so(?:u(?:rc?)?)?|fi(?:le?)?|as(?:s(?:i(?:gn?)?)?)?)(?:=.*)?)$/s;

/** `awk`: `system`, pipes, loaded files and functions called by name run programs. */
export function awkCode(words: readonly Word[]): Code {
  // An option may load code, read commands of a debugger, or hold the program.
  if (words.some(({ value }) => value?.startsWith('-') && !AWK_OPTIONS.test(value))) {
    return { kind: 'hidden' };
  }
  const code = /^(?:-e|--so(?:u(?:r(?:c(?:e)?)?)?)?(?:=|$))/;
  const files = /^(?:-f|--fi(?:l(?:e)?)?(?:=|$))/;
  const values = /^(?:-[vF]|--(?:assign|field-separator)(?:=|$))/;
  const found = scriptsOf(words, { code, files, values });
  if (found === undefined || found.files.some(isInput) || found.scripts.some(awkRuns)) return { kind: 'hidden' };
  const [file] = found.files;
  return file === undefined ? { kind: 'none' } : { kind: 'file', file };
}

/** True for a program of `awk` that may run another program. */
export function awkRuns(program: string): boolean {
  return program.length > MAX_SCRIPT || awkFrom(program, { at: 0, before: '', ways: { left: MAX_WAYS } }, true);
}

/** Maximum number of ways in which a program of `awk` is read. */
const MAX_WAYS = 16;
const AWK_PATTERN = /^\/(?:[^/\\\n[]|\\[^\n]|\[\^?\]?[^\]\n]*\])*\//;

/** Reads `awk` code. A slash that begins a pattern in one reading and divides in another is read both ways. */
function awkFrom(
  program: string,
  { at: from, before: last, ways }: { readonly at: number; readonly before: string; readonly ways: { left: number } },
  isFirst: boolean,
): boolean {
  let before = last;
  for (let at = from; at < program.length; ) {
    const rest = program.slice(at);
    const regexp = before === '' || /[(,~!&|{};\n]/.test(before);
    if (rest.startsWith('/') && !regexp) {
      const pattern = AWK_PATTERN.exec(rest)?.[0];
      if (pattern !== undefined) {
        if (--ways.left < 0 || awkFrom(program, { at: at + pattern.length, before: 'x', ways }, false)) return true;
      }
    }
    const skipped =
      /^\s+/.exec(rest)?.[0] ??
      /^#[^\n]*/.exec(rest)?.[0] ??
      /^"(?:[^"\\\n]|\\[\s\S])*"/.exec(rest)?.[0] ??
      (regexp ? AWK_PATTERN.exec(rest)?.[0] : undefined) ??
      /^\|\|/.exec(rest)?.[0] ??
      /^[A-Za-z_]\w*/.exec(rest)?.[0] ??
      rest[0] ??
      '';
    if (skipped === 'system' || skipped === '|' || skipped === '@') return true;
    // In another reading than the first, a text without an end says that `awk` does not read the program so.
    if (skipped === '"') return isFirst;
    at += skipped.length;
    if (skipped.trim() !== '') before = /^["/\w]/.test(skipped) && skipped.length > 1 ? 'x' : (skipped.at(-1) ?? '');
    if (skipped.includes('\n')) before = '\n';
  }
  return false;
}
