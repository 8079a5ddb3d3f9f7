/**
 * Options and subcommands with one meaning: a rule that asks or denies names one of them. From the manuals of coreutils,
 * findutils, git and of the programs themselves. Data.
 */

/** For each program, lists of equal options. Options of subcommands stand with their program. */
const EQUAL: Readonly<Record<string, readonly string[]>> = {
  rm: ['-r -R --recursive', '-f --force', '-d --dir'],
  cp: ['-r -R --recursive', '-f --force', '-a --archive', '-t --target-directory'],
  mv: ['-f --force', '-t --target-directory'],
  ln: ['-s --symbolic', '-f --force'],
  chmod: ['-R --recursive'],
  chown: ['-R --recursive'],
  chgrp: ['-R --recursive'],
  grep: ['-r --recursive', '-R --dereference-recursive'],
  shred: ['-u --remove', '-f --force'],
  kill: ['-9 -KILL -SIGKILL'],
  pkill: ['-9 -KILL -SIGKILL', '-f --full'],
  killall: ['-9 -KILL -SIGKILL'],
  git: [
    '-f --force',
    '-d --delete',
    '-a --all',
    '-A --all',
    '-n --no-verify',
    '-i --interactive',
    '-m --message',
    '-s --signoff',
  ],
  npm: ['-g --global', '-f --force'],
  pnpm: ['-g --global', '-f --force'],
  docker: ['-v --volume', '-d --detach', '-p --publish', '-f --force', '-a --all'],
  podman: ['-v --volume', '-d --detach', '-p --publish', '-f --force', '-a --all'],
  kubectl: ['-n --namespace', '-f --filename', '-A --all-namespaces', '-l --selector'],
  curl: ['-X --request', '-d --data', '-o --output', '-T --upload-file', '-F --form', '-k --insecure', '-K --config'],
  wget: ['-O --output-document', '-i --input-file'],
  sed: ['-i --in-place'],
  sudo: ['-u --user', '-i --login', '-s --shell'],
  apt: ['-y --yes --assume-yes'],
  'apt-get': ['-y --yes --assume-yes'],
  systemctl: ['-f --force'],
  rsync: [
    '--delete --del --delete-before --delete-during --delete-delay --delete-after --delete-excluded',
    '-e --rsh',
    '-a --archive',
  ],
  tar: ['-x --extract --get', '-c --create', '-P --absolute-names'],
};

/** Returns the options with the meaning of this one, itself among them. */
export function equalOptions(program: string | undefined, option: string): readonly string[] {
  const [name = '', ...value] = option.split(/(?==)/);
  const groups = program !== undefined && Object.hasOwn(EQUAL, program) ? (EQUAL[program] ?? []) : [];
  const equal = groups.map((group) => group.split(' ')).filter((group) => group.includes(name));
  return [option, ...equal.flat().flatMap((other) => (other === name ? [] : [`${other}${value.join('')}`]))];
}

/** Operands of `git push` that mean an option: `+main` forces, `:main` deletes. */
export function isPushOperand(option: string, operand: string): boolean {
  if (option === '--force' || option === '-f') return /^\+./.test(operand) || operand === '--mirror';
  return (option === '--delete' || option === '-d') && /^\+?:./.test(operand);
}

/** For each program, lists of subcommands that mean the same. */
const EQUAL_SUBCOMMANDS: Readonly<Record<string, readonly string[]>> = {
  npm: [
    'install i in ins inst insta instal isnt isnta isntal isntall add',
    'ci clean-install ic install-clean isntall-clean',
    'uninstall un unlink remove rm r',
    'run run-script rum urn',
    'update up upgrade udpate',
    'test t tst',
    'exec x',
    'link ln',
    'init create innit',
    'view v info show',
    'config c',
    'rebuild rb',
    'version verison',
  ],
  pnpm: ['install i', 'remove rm uninstall un', 'run run-script', 'update up upgrade', 'test t'],
  yarn: ['upgrade up', 'run run-script'],
  cargo: ['build b', 'check c', 'run r', 'test t', 'doc d', 'remove rm'],
  svn: ['commit ci', 'delete del remove rm', 'update up', 'checkout co', 'switch sw'],
  hg: ['commit ci', 'update up checkout co', 'remove rm'],
  brew: ['uninstall remove rm'],
  helm: ['uninstall un del delete'],
  conda: ['remove uninstall'],
};
const SAME_PROGRAM: Readonly<Record<string, string>> = {
  yarnpkg: 'yarn',
  podman: 'docker',
  nerdctl: 'docker',
  mamba: 'conda',
};
/** Programs that accept the first letters of a subcommand. */
const SHORTENS = /^(?:npm|hg|ip)$/;
/** `docker container run` is `docker run`. */
const KINDS = /^(?:container|image)$/;

/** True when the word may be one of these subcommands, or stands before one and does not count. */
export function isSubcommand(
  program: string | undefined,
  wanted: ReadonlySet<string>,
  word: string,
): 'yes' | 'passed' | 'no' {
  if (wanted.has(word)) return 'yes';
  if (program === undefined) return 'no';
  const name = Object.hasOwn(SAME_PROGRAM, program) ? (SAME_PROGRAM[program] as string) : program;
  if (name === 'docker' && KINDS.test(word)) return 'passed';
  const groups = Object.hasOwn(EQUAL_SUBCOMMANDS, name) ? (EQUAL_SUBCOMMANDS[name] as readonly string[]) : [];
  const equal = groups.map((group) => group.split(' ')).filter((group) => group.includes(word));
  if (equal.flat().some((one) => wanted.has(one))) return 'yes';
  const isShort = SHORTENS.test(name) && equal.length === 0 && [...wanted].some((one) => one.startsWith(word));
  return isShort ? 'yes' : 'no';
}
