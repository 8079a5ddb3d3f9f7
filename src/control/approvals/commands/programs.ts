/**
 * What is known of programs by their names: which run code that others wrote, which change the shell they run in, and how
 * those that start another program are read. Data; used by `started-by.ts`, `command-reader.ts` and `coverage.ts`.
 */

/**
 * Programs that run code of others: what a folder, a package or the network says decides what happens, so the same words
 * do another thing tomorrow. A remembered yes never covers them; a rule of the configuration may name them.
 * `docs/security/approvals.md` shows this list.
 */
export const RUNS_OTHERS_CODE: Readonly<Record<string, string>> = {
  'package managers':
    'npm npx pnpm pnpx yarn yarnpkg bun bunx corepack deno jsr pip pip3 pipx uv uvx poetry pdm hatch conda mamba pixi gem bundle bundler rake composer cargo rustup go mix hex rebar3 cabal stack opam nix nix-env nix-shell nix-build brew port apt apt-get aptitude dpkg yum dnf rpm zypper pacman apk snap flatpak nuget dotnet pod swift luarocks cpan cpanm dub zig vcpkg conan',
  'build tools':
    'make gmake bmake nmake cmake ctest ninja meson scons bazel bazelisk buck buck2 pants gradle gradlew mvn mvnw ant sbt lein mill just task tox nox invoke fab grunt gulp turbo nx lerna rush vite webpack rollup rolldown esbuild parcel tsc tsx ts-node swc babel autoconf configure cc gcc g++ clang clang++ ld',
  'tests and linters':
    'jest vitest mocha ava tap c8 nyc playwright cypress pytest unittest rspec phpunit eslint prettier stylelint biome ruff mypy pylint pre-commit husky lint-staged',
  interpreters:
    'node nodejs python python2 python3 pypy pypy3 ipython jupyter perl raku ruby irb php lua luajit tclsh wish expect R Rscript julia java jshell groovy scala kotlin kotlinc clojure clj erl elixir iex escript ghci runghc ocaml guile racket sbcl emacs osascript pwsh powershell awk gawk mawk nawk sed gsed jq yq bc dc gdb lldb m4 vi vim nvim ex view ed nano psql mysql sqlite3 mongo mongosh redis-cli',
  shells: 'sh bash rbash dash ash zsh ksh mksh pdksh fish csh tcsh nu elvish xonsh busybox toybox . source eval trap',
  'programs that start others':
    'env xargs parallel find fd fdfind command-not-found sudo doas su runuser pkexec run0 chroot unshare nsenter setpriv setsid taskset chrt numactl prlimit flock watch entr inotifywait strace ltrace perf valgrind script unbuffer rlwrap systemd-run dbus-run-session xvfb-run proxychains proxychains4 torsocks at batch crontab screen tmux zellij direnv mise asdf rtx nvm volta rbenv pyenv devbox foreman honcho concurrently nodemon pm2 start-stop-daemon ld.so make-job time-machine',
  'other machines and containers':
    'ssh scp sftp rsync mosh telnet nc ncat netcat socat curl wget docker docker-compose podman nerdctl buildah kubectl oc helm terraform tofu terragrunt pulumi ansible ansible-playbook vagrant packer aws gcloud az gh glab heroku fly flyctl vercel netlify wrangler',
  'archives and documents that run code':
    'tar zip unzip rpmbuild tex latex pdflatex xelatex lualatex latexmk gs convert magick ffmpeg man less more most pager',
  'version control, beyond what only reads': 'hg svn bzr fossil jj git-lfs gpg',
};

const othersCode = new Set(Object.values(RUNS_OTHERS_CODE).flatMap((names) => names.split(' ')));

/** Subcommands of git that show and run nothing but git, without options. All others may run hooks, filters or aliases. */
export const GIT_SHOWS: ReadonlySet<string> = new Set([
  'blame',
  'cat-file',
  'describe',
  'diff',
  'log',
  'ls-files',
  'ls-tree',
  'rev-list',
  'rev-parse',
  'shortlog',
  'show',
  'status',
]);

/** True for a command that runs code of others, or may: a path names a file that anyone could have written. */
export function runsOthersCode([program = '', subcommand = '']: readonly (string | undefined)[]): boolean {
  if (program.includes('/') || program === '') return true;
  if (program === 'git') return !GIT_SHOWS.has(subcommand);
  return othersCode.has(program) || othersCode.has(program.replace(/[\d.-]+$/, ''));
}

/** Builtins that change what later commands of the same line mean or do. */
export const CHANGES_THE_SHELL: ReadonlySet<string> = new Set(
  '. alias bind declare enable eval exec export getopts hash let local mapfile printf -v read readarray readonly set shopt source trap typeset ulimit umask unalias unset'.split(
    ' ',
  ),
);

/** Builtins that take names of variables: the shell runs substitutions in a subscript (`a[$(…)]`), also a quoted one. */
export const TAKES_NAMES: ReadonlySet<string> = new Set(
  'declare export getopts let local mapfile printf read readarray readonly test typeset unset wait ['.split(' '),
);

/** How a program that starts another one is read. */
export interface Starter {
  /** Options that take the next word, or the rest of their own, as their value. */
  readonly values?: string;
  /** Options that stand alone. */
  readonly flags?: string;
  /** Operands before the program. */
  readonly operands?: number;
  /** `NAME=value` may stand before the program. */
  readonly assigns?: boolean;
  /** With these options it starts nothing. */
  readonly shows?: string;
  /**
   * The program counts, this one does not: it adds time, priority or output buffers and nothing else. Only without the
   * options in `values`, but for those in `harmless`.
   */
  readonly transparent?: boolean;
  readonly harmless?: string;
  /** Flags with which it counts all the same: without variables a shell looks for programs elsewhere, also in the folder. */
  readonly clears?: string;
  /** What it starts gets further arguments that are not in the line. */
  readonly more?: boolean;
}

export const STARTERS: Readonly<Record<string, Starter>> = {
  builtin: { transparent: true },
  busybox: { shows: '--list --help' },
  caffeinate: { values: '-t -w', flags: '-d -i -m -s -u' },
  chroot: { values: '--userspec --groups', flags: '--skip-chdir', operands: 1 },
  chrt: { values: '-T -P -D', flags: '-b -f -i -o -r -R -d -a -v', operands: 1 },
  command: { flags: '-p', shows: '-v -V', transparent: true },
  doas: { values: '-a -C -u', flags: '-n -s -L' },
  env: {
    values: '-u -C --unset --chdir',
    flags: '-i -0 -v - --ignore-environment',
    clears: '-i - --ignore-environment',
    assigns: true,
    transparent: true,
  },
  exec: { values: '-a', flags: '-c -l', clears: '-c -l', transparent: true },
  flock: { values: '-w -E --timeout', flags: '-s -x -e -u -n -o -F --shared --exclusive --nonblock', operands: 1 },
  ionice: {
    values: '-c -n --class --classdata',
    flags: '-t',
    harmless: '-c -n --class --classdata',
    transparent: true,
  },
  ltrace: { values: '-e -o -n -s -u', flags: '-c -f -i -r -t -T -S' },
  nice: { values: '-n --adjustment', harmless: '-n --adjustment', transparent: true },
  nohup: { transparent: true },
  nsenter: { values: '-t -S -G --target', flags: '-a -m -u -i -n -p -C -U -F' },
  numactl: { values: '-i -m -N -C -p --interleave --membind --cpunodebind --physcpubind', flags: '-l --localalloc' },
  parallel: { values: '-j --jobs -a --arg-file', flags: '-k -X -u --keep-order', more: true },
  proxychains: { values: '-f', flags: '-q' },
  proxychains4: { values: '-f', flags: '-q' },
  rlwrap: { flags: '-a -c' },
  runuser: { values: '-u -g -G', flags: '-l -m -p' },
  setpriv: {
    values: '--reuid --regid --groups --inh-caps --bounding-set --pdeathsig',
    flags: '--clear-groups --init-groups --no-new-privs --reset-env',
  },
  setsid: { flags: '-c -f -w --fork --wait --ctty' },
  stdbuf: {
    values: '-i -o -e --input --output --error',
    harmless: '-i -o -e --input --output --error',
    transparent: true,
  },
  strace: { values: '-e -o -p -s -u -P', flags: '-c -f -ff -i -q -qq -r -t -tt -T -v -x -y -yy' },
  sudo: {
    values: '-a -C -c -D -g -h -p -R -r -t -T -u --user --group --host --prompt --chdir --chroot --close-from',
    flags: '-A -B -b -E -H -i -k -K -n -P -S -s --login --shell --non-interactive --preserve-env --set-home --stdin',
    shows: '-l -v -V -e --list --validate --version --edit',
    assigns: true,
  },
  'systemd-run': { values: '-p -t --unit --property --uid --gid', flags: '--user --scope --pty --wait --collect -q' },
  taskset: { flags: '-a -p -c --cpu-list', operands: 1 },
  time: { values: '-f -o --format --output', flags: '-p -a -v --portability --append --verbose', transparent: true },
  timeout: {
    values: '-k -s --kill-after --signal',
    harmless: '-k -s --kill-after --signal',
    flags: '-v -p -f --foreground --preserve-status --verbose',
    operands: 1,
    transparent: true,
  },
  torsocks: { flags: '-i' },
  toybox: {},
  unbuffer: { flags: '-p' },
  unshare: {
    values: '-R -w -S -G --root --wd',
    flags: '-m -u -i -n -p -U -C -T -f -r -c --fork --map-root-user --mount --net --pid --user',
  },
  watch: { values: '-n --interval', flags: '-b -c -d -e -g -t -x --beep --color --differences --errexit --exec' },
  xargs: {
    values: '-I -n -P -L -d -s -E -a --max-args --max-procs --max-lines --delimiter --arg-file --replace',
    flags: '-0 -r -t -x -p -i -l --null --no-run-if-empty --verbose --interactive --exit',
    more: true,
  },
};
