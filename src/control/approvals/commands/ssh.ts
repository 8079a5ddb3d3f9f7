/**
 * The programs that `ssh`, `scp` and `sftp` start: the command for the other machine, which may be this one, and the commands
 * of settings. Pure.
 */
import { commandOf, FURTHER, isOption, mayBeOption, runningOptions, wordFor } from './options.ts';
import type { Word } from './shell-syntax.ts';
import { NOTHING, type Started, unknown } from './started.ts';

const SSH_VALUES = 'BbcDEeFIiJLlmOopPQRSWw';
/** Settings of `ssh` that name programs, or files of such settings. */
const SSH_RUNS = /^(?:proxycommand|localcommand|knownhostscommand|remotecommand)[\s=]+(.*)$/is;
const SSH_OPAQUE =
  /^(?:pkcs11provider|smartcarddevice|securitykeyprovider|xauthlocation|include|match|proxyusefdpass|permitlocalcommand)\b/i;

/** `ssh`, as other programs start it, with words that are not in the line. */
export const SSH = commandOf([wordFor('ssh'), FURTHER]);

/**
 * Reads a value of `-o` of `ssh` and `scp`; adds the command line in it to `scripts`. `opaque` where it may start other
 * programs.
 */
function settingOf(given: string, scripts: string[]): 'known' | 'opaque' {
  const run = SSH_RUNS.exec(given.trim());
  if (run !== null) scripts.push(run[1] ?? '');
  // Names may stand in quotes.
  return run === null && (SSH_OPAQUE.test(given.trim()) || !/^[a-z]/i.test(given.trim())) ? 'opaque' : 'known';
}

/** `scp` and `sftp`, whose commands can be for this machine. */
export function copied(words: readonly Word[]): Started {
  const { scripts: settings, unsure } = runningOptions(words, { scripts: '-o', stops: 'cFiJlPSDXbBR' });
  const { scripts, opaque } = runningOptions(words, { scripts: '-S', opaque: '-D -b', stops: 'cFiJloPXBR' });
  const all = [...scripts];
  const isOpaque = settings.map((given) => settingOf(given, all)).includes('opaque');
  const operands = words.filter((word) => !isOption(word));
  const supposed = [SSH];
  return opaque || isOpaque || unsure || operands.length < 2
    ? { ...unknown, scripts: all, supposed }
    : { ...NOTHING, scripts: all, supposed };
}

/** `ssh [options] HOST COMMAND…`: the host may be this one. */
export function remote(words: readonly Word[]): Started {
  const scripts: string[] = [];
  const files: Word[] = [];
  let isOpaque = false;
  let at = 0;
  for (; at < words.length; at++) {
    const word = words[at] as Word;
    const { value } = word;
    if (value === undefined && mayBeOption(word)) return unknown;
    if (value === undefined || !value.startsWith('-') || value.length < 2) break;
    const letter = [...value.slice(1)].findIndex((one) => SSH_VALUES.includes(one));
    if (letter === -1) continue;
    const inside = value.slice(letter + 2);
    const given = inside === '' ? words[++at]?.value : inside;
    const option = value[letter + 1];
    if (option === 'I' || given === undefined) isOpaque = true;
    if (option === 'F' && given !== undefined) files.push({ value: given, head: given, text: given });
    if (option !== 'o' || given === undefined) continue;
    if (settingOf(given, scripts) === 'opaque') isOpaque = true;
  }
  const command = words.slice(at + 1);
  if (isOpaque || command.some(({ value }) => value === undefined)) return { ...unknown, scripts };
  if (command.length > 0)
    return { ...NOTHING, files, scripts: [...scripts, command.map(({ value }) => value).join(' ')] };
  // Without a command it reads them from its input.
  const isQuiet = words.some(({ value }) => /^-[a-zA-Z]*[NGVQO]/.test(value ?? ''));
  return isQuiet ? { ...NOTHING, files, scripts } : { ...unknown, scripts };
}

/** Addresses of other machines, by the program that has them; `git@x:y` and `ssh://x` for all others. */
const ARCHIVE = /^(?:[a-zA-Z]*f|--file=|-\w*[FIO])?[\w.@-]+:(?!:)/;
const MACHINES: Readonly<Record<string, RegExp>> = {
  rsync: /^(?!-)[^/]+:/,
  tar: ARCHIVE,
  gtar: ARCHIVE,
  cpio: ARCHIVE,
  mt: ARCHIVE,
  mosh: /./,
};
const SSH_ADDRESS = /(?:^|[=@])(?:[\w.-]+\+)?ssh(?:\+\w+)?:\/\/|(?:^|=)git@[\w.-]+:/i;
/** Subcommands of git whose first operand is a repository. */
const REPOSITORY = /^(?:clone|ls-remote|fetch|pull|push)$/;
const MACHINE_OF_GIT = /^[\w.-]+@[\w.-]+:|^(?!\w+:\/\/)[\w.-]+:(?!:)/;

/** True when it reaches another machine by `ssh`. */
export function isOverSsh(program: string, [, ...words]: readonly Word[]): boolean {
  const known = Object.hasOwn(MACHINES, program) ? MACHINES[program] : undefined;
  const isNamed = (pattern: RegExp) => words.some(({ value }) => value !== undefined && pattern.test(value));
  if (known !== undefined)
    return isNamed(known) || (program === 'rsync' && words.some(({ value }) => value === undefined));
  if (isNamed(SSH_ADDRESS)) return true;
  if (program !== 'git') return false;
  const at = words.findIndex(({ value }) => REPOSITORY.test(value ?? ''));
  const repository = words.slice(at + 1).find((word) => !isOption(word));
  return isNamed(/^[\w.-]+@[\w.-]+:/) || (at !== -1 && MACHINE_OF_GIT.test(repository?.value ?? ''));
}
