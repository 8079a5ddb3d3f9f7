/**
 * The programs that git starts: by settings on its command line, by options and operands of its subcommands, and by addresses.
 * From the manual of git 2.39 to 2.51. Pure. Settings of repositories and hooks are files, which are not looked into.
 */
import {
  commandOf,
  isOption,
  longOption,
  mayBeOption,
  type RunningOptions,
  runningOptions,
  wordFor,
} from './options.ts';
import type { SimpleCommand, Word } from './shell-syntax.ts';

export interface GitStarted {
  readonly commands: readonly SimpleCommand[];
  readonly scripts: readonly string[];
  /** True when it may start programs that are not in the line. */
  readonly hidden: boolean;
}

/** Options of git before its subcommand that take a value. */
const VALUES = new Set([
  '-C',
  '--git-dir',
  '--work-tree',
  '--namespace',
  '--super-prefix',
  '--list-cmds',
  '--attr-source',
]);

const FLAGS = new Set(
  '-v --version -h --help --html-path --man-path --info-path --exec-path -p --paginate -P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs'.split(
    ' ',
  ),
);

/** Settings whose value is a command line. */
const COMMANDS =
  /^(?:alias\..+|gc\.recentobjectshook|core\.(?:fsmonitor|pager|editor|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|(?:diff|merge)\.(?:gui)?tool|pager\..+|diff\.external|diff\..+\.(?:command|textconv)|(?:difftool|mergetool|guitool|browser|man|web)\..*\.?(?:cmd|path)|merge\..+\.driver|filter\..+\.(?:clean|smudge|process)|credential\.(?:.+\.)?helper|gpg\.(?:.+\.)?program|gpg\.ssh\.defaultkeycommand|uploadpack\.packobjectshook|remote\..+\.(?:uploadpack|receivepack)|sendemail\.(?:.+\.)?(?:smtpserver|tocmd|cccmd|headercmd|sendmailcmd)|imap\.tunnel|trailer\..+\.(?:command|cmd)|interactive\.difffilter|tar\..+\.command|submodule\..+\.update|hook\..+\.command|instaweb\.httpd)$/;

/** Settings that start nothing with any value. */
const HARMLESS =
  /^(?:user|author|committer|color|advice|safe|gc|pull|log|status|branch|index|feature|pack|column|format|grep|apply|blame|stash|worktree|rerere|checkout|clone|i18n|versionsort|rebase|commitgraph|maintenance|notes|tag|commit|push|fetch|diff|merge|lfs|showbranch|sparse|repack|add|am|bisect|cherrypick|revert|reset|reflog|switch|restore|describe|gpg|http|https|trace2|receive|transfer|init|ssh|submodule|core|protocol|credential)\.(?:.+\.)?[a-z\d]+$|^remote\..+\.(?:url|pushurl|fetch|push|prune|tagopt)$/;
/** Exceptions: they name files of settings or hooks, programs of other kinds, or allow addresses that are commands. */
const NOT_HARMLESS =
  /^(?:core\.(?:hookspath|attributesfile|worktree)|init\.templatedir|protocol\.(?:allow|ext\.allow|.+\.allow)|include|extensions|url|trace2|submodule\..+\.url|lfs\.(?:.*customtransfer|extension)|rebase\.instructionformat|http\.(?:.+\.)?(?:proxy|sslcert|sslkey)|gpg\.format|pull\.(?:octopus|twohead))/;
const PROTOCOLS = /^protocol\.(?:file|https?|ssh|git)\.allow$/;

/** Options of `git config` that take the next word. */
const CONFIG_VALUES = ['-f', '--file', '--blob', '-t', '--type', '--default', '--comment', '--value', '--url'];

/** Editors that leave the file as it is, or change words of a list of commits: others may write a list that runs programs. */
const PLAIN_EDITOR =
  /^(?:|true|false|cat|:|sed -i(?: -e)? ["']?(?:\d+(?:,\d+|,\$)?)?s\/\^?pick\/(?:reword|edit|squash|fixup|drop|[resfd])\/g?["']?)$/;
export const isPlainEditor = (editor: string): boolean => PLAIN_EDITOR.test(editor.trim());

/** `core.editor=…` with an editor that may write such a list. */
function writesList(text: string | undefined): boolean {
  const editor = /^(?:core|sequence)\.editor=(.*)$/is.exec(text ?? '')?.[1];
  return editor !== undefined && !isPlainEditor(editor);
}

/** Subcommands that are git's own; all others are aliases or programs called `git-…`. */
const SUBCOMMANDS = new Set(
  'add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config count-objects credential describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref format-patch fsck gc get-tar-commit-id grep hash-object help index-pack init interpret-trailers last-modified log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push range-diff read-tree rebase reflog refs remote repack replace replay repo request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule subtree switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree write-tree lfs'.split(
    ' ',
  ),
);

const UPLOAD = { scripts: '--upload-pack --exec', others: '--exclude-existing' };
/** Options of subcommands that name a program. */
const OPTIONS: Readonly<Record<string, RunningOptions>> = {
  archive: { scripts: '--exec', stops: 'o' },
  clone: { scripts: '-u --upload-pack', opaque: '--template', stops: 'obj' },
  difftool: { scripts: '-x --extcmd -t --tool', others: '--tool-help' },
  fetch: { scripts: '--upload-pack', others: '--update-head-ok --update-shallow --unshallow --update-refs' },
  'fetch-pack': UPLOAD,
  'filter-branch': {
    scripts:
      '--setup --env-filter --tree-filter --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter',
  },
  grep: { scripts: '-O --open-files-in-pager', stops: 'ABCefm', others: '--or --only-matching --original' },
  init: { opaque: '--template', stops: 'b' },
  lfs: { scripts: '--program' },
  'ls-remote': UPLOAD,
  mergetool: { scripts: '-t --tool', others: '--tool-help', stops: 'O' },
  pull: { scripts: '--upload-pack', others: '--update-head-ok --update-shallow --unshallow' },
  push: { scripts: '--receive-pack --exec' },
  rebase: { scripts: '-x --exec', stops: 'sXCS' },
  'send-pack': { scripts: '--receive-pack --exec' },
  'send-email': {
    scripts: '--smtp-server --to-cmd --cc-cmd --header-cmd --sendmail-cmd',
    opaque: '--compose --annotate',
  },
};

const NOTHING: GitStarted = { commands: [], scripts: [], hidden: false };
const HIDDEN: GitStarted = { ...NOTHING, hidden: true };
const UNKNOWN = Symbol('unknown');

/** Returns the command line in `NAME=value`, if any; `UNKNOWN` where it is not known. */
function setting(text: string | undefined): string | undefined | typeof UNKNOWN {
  if (text === undefined) return UNKNOWN;
  const [key = '', value = 'true'] = text.split(/=(.*)/s, 2);
  const parts = key.split('.');
  const name = [parts[0]?.toLowerCase(), ...parts.slice(1, -1), parts.at(-1)?.toLowerCase()].join('.');
  const given = value.trim();
  if (COMMANDS.test(name)) return /^(?:|true|false|cat|:)$/.test(given) ? undefined : given.replace(/^!/, '');
  if (PROTOCOLS.test(name)) return undefined;
  return HARMLESS.test(name) && !NOT_HARMLESS.test(name) ? undefined : UNKNOWN;
}

export function gitStarted(words: readonly Word[]): GitStarted {
  const scripts: string[] = [];
  let hidden = false;
  const set = (text: string | undefined): void => {
    const script = setting(text);
    if (script === UNKNOWN) hidden = true;
    else if (script !== undefined) scripts.push(script);
    if (writesList(text)) hidden = true;
  };
  let at = 0;
  for (; isOption(words[at]); at++) {
    const value = words[at]?.value;
    if (value === undefined) return HIDDEN;
    if (value === '-c') set(words[++at]?.value);
    else if (VALUES.has(value)) at++;
    else if (!FLAGS.has(value) && !VALUES.has(value.replace(/=.*$/s, ''))) return HIDDEN;
  }
  const [subcommand, ...rest] = words.slice(at);
  if (subcommand === undefined) return { ...NOTHING, scripts, hidden };
  const name = subcommand.value;
  if (name === undefined || !SUBCOMMANDS.has(name)) return { ...NOTHING, scripts, hidden: true };
  const own = ofSubcommand(name, rest, set);
  return { commands: own.commands, scripts: [...scripts, ...own.scripts], hidden: hidden || own.hidden };
}

function ofSubcommand(name: string, rest: readonly Word[], set: (text: string | undefined) => void): GitStarted {
  const found = Object.hasOwn(OPTIONS, name) ? runningOptions(rest, OPTIONS[name] as RunningOptions) : undefined;
  const scripts = [...(found?.scripts ?? [])];
  let commands: SimpleCommand[] = [];
  // An address like `ext::touch M` is a command line.
  let hidden =
    found?.opaque === true ||
    found?.unsure === true ||
    rest.some(({ value }) => /^(?:--[\w-]+=)?[\w+.-]+::/.test(value ?? ''));
  const first = rest.findIndex((word) => !isOption(word));
  const [verb, ...more] = first === -1 ? [] : rest.slice(first);
  switch (name) {
    case 'bisect':
      if (verb?.value === 'run') commands = more.length > 0 ? [commandOf(more)] : [];
      // Its operands are a command of git, or a program whose name begins with `git-`.
      if (/^v(?:iew|isualize)$/.test(verb?.value ?? '') && more.length > 0 && !isOption(more[0])) {
        commands = [commandOf([wordFor('git'), ...more])];
      }
      hidden ||= verb?.value === undefined && verb !== undefined;
      break;
    case 'submodule': {
      const from = rest.findIndex(({ value }) => value === 'foreach');
      hidden ||= rest.some(mayBeOption);
      if (from === -1) break;
      const run = rest.slice(from + 1);
      while (run[0]?.value === '--recursive' || run[0]?.value === '--quiet' || run[0]?.value === '-q') run.shift();
      if (run.some(({ value }) => value === undefined)) hidden = true;
      else if (run.length === 1) scripts.push(run[0]?.value ?? '');
      else if (run.length > 1) commands = [commandOf(run)];
      break;
    }
    case 'merge-index': {
      const program = rest.findIndex(({ value, head }) => !['-o', '-q'].includes(value ?? head));
      if (program !== -1) commands = [commandOf(rest.slice(program, program + 1))];
      break;
    }
    case 'config':
      configured(rest);
      break;
    case 'subtree':
      if (rest.some(({ value }) => value === undefined || value === 'push'))
        commands = [commandOf(['git', 'push'].map(wordFor))];
      break;
    case 'clone':
      for (const [index, { value = '' }] of rest.entries()) {
        const [option = '', inside] = value.split(/=(.*)/s, 2);
        if (longOption(option, ['--config', '--checkout']) === '--config') set(inside ?? rest[index + 1]?.value);
        else if (/^-[a-zA-Z]*c/.test(value)) set(value.replace(/^-[a-zA-Z]*?c/, '') || rest[index + 1]?.value);
      }
      break;
    case 'help':
      hidden ||= rest.some(({ value }) => /^(?:-w|--w)/.test(value ?? '-w'));
  }
  return { commands, scripts, hidden };

  /** `git config [set] NAME VALUE`: a setting that starts something counts when it is written. */
  function configured(given: readonly Word[]): void {
    const names = given.filter(
      (word, at) =>
        !isOption(word) && !CONFIG_VALUES.includes(longOption(given[at - 1]?.value ?? '', CONFIG_VALUES) ?? ''),
    );
    // Sections get other names, and so do the settings in them.
    if (given.some(({ value }) => /^(?:--)?ren/.test(value ?? ''))) hidden = true;
    if (given.some(({ value }) => /^(?:-e|--e(?:d(?:i(?:t)?)?)?|edit)$/.test(value ?? ''))) hidden = true;
    const [key, value] = ['set', 'get', 'unset', 'list'].includes(names[0]?.value ?? '') ? names.slice(1) : names;
    if (key === undefined || value === undefined) return;
    const script = key.value === undefined ? UNKNOWN : setting(`${key.value}=${value.value ?? 'x'}`);
    const isEditor = writesList(`${key.value}=${value.value}`);
    if (isEditor || script === UNKNOWN || (script !== undefined && value.value === undefined)) hidden = true;
    if (typeof script === 'string' && value.value !== undefined) scripts.push(script);
  }
}
