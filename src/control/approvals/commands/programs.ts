/**
 * Programs by their names: those that run code that others wrote, those that change the shell they run in, and those that start
 * another program, with the way they are read. Data.
 */

import { withoutVersion } from './program-version.ts';

/**
 * Programs that run code of others: a folder, a package or the network decides what happens, so the same words do another thing
 * tomorrow. A remembered yes never covers them; a rule of the configuration may name them. `docs/security/approvals.md` shows
 * this list.
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
  return othersCode.has(program) || othersCode.has(withoutVersion(program));
}

/** Builtins that change the meaning or effect of later commands of the same line. */
export const CHANGES_THE_SHELL: ReadonlySet<string> = new Set(
  '. alias bind declare enable eval exec export getopts hash let local mapfile printf -v read readarray readonly set shopt source trap typeset ulimit umask unalias unset'.split(
    ' ',
  ),
);

/** Builtins that take names of variables: the shell runs substitutions in a subscript (`a[$(…)]`), also a quoted one. */
export const TAKES_NAMES: ReadonlySet<string> = new Set(
  'declare export getopts let local mapfile printf read readarray readonly test typeset unset wait ['.split(' '),
);
