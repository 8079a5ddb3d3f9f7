/**
 * Programs by the way in which their arguments start others: not at all, by some of their options, by any of their words, or in
 * a way that the line does not tell. From the manuals of bash, coreutils, util-linux, findutils, diffutils, procps and of the
 * programs themselves. Data. A program that is in none of the lists is not known, and a rule that denies may be about it.
 */

import type { RunningOptions } from './options.ts';
import { withoutVersion } from './program-version.ts';
import { RUNS_OTHERS_CODE } from './programs.ts';

const names = (...lists: readonly string[]): ReadonlySet<string> =>
  new Set(lists.flatMap((list) => list.toLowerCase().split(' ')));

/** Returns programs of one kind that run code of others. */
const othersCode = (kind: string): string => RUNS_OTHERS_CODE[kind] ?? '';

/** Programs and builtins that start no other program with any arguments. */
export const STARTS_NOTHING = names(
  ': true false cd pwd echo pushd popd dirs shift return exit logout break continue times umask ulimit bg fg kill disown suspend set shopt unalias type caller help history',
  'arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown cksum comm cp cut date dd df dir dircolors dirname du expand expr factor fmt fold groups head hostid id join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nl nproc numfmt od paste pathchk pinky pr printenv ptx readlink realpath rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shasum shred shuf sleep stat stty sum sync tac tail tee touch tr truncate tsort tty uname unexpand uniq unlink users vdir wc who whoami yes csplit',
  'blkid cal column colrm dmesg fallocate fincore findmnt getopt hardlink hexdump ipcs line look lsblk lscpu lsipc lsmem lsns logger mcookie mesg namei rev uuidgen uuidparse whereis which xxd hd hostname dnsdomainname',
  'free killall lsof pgrep pidof pkill pmap ps pwdx skill slabtop tload top uptime vmstat w iostat mpstat sar fuser pstree getent lsb_release sw_vers hostnamectl timedatectl locale iconv',
  'cmp colordiff diff grep egrep fgrep pcregrep zgrep zegrep zfgrep xzgrep zcat zcmp zdiff gzip gunzip bzip2 bunzip2 bzcat xz unxz xzcat lzma unlzma zstd unzstd zstdcat lz4 lz4cat brotli compress uncompress unzip zipinfo funzip 7z 7za 7zr readelf strings file ldconfig exa eza lsd dust duf sd jq yq bc xmllint tidy dos2unix unix2dos scc tokei wdiff md5 base58 b3sum rhash',
  'ping ping6 dig host nslookup whois ifconfig ss netstat arp route traceroute tracepath http https xh pbcopy pbpaste xclip xsel wl-copy wl-paste tput clear reset figlet fortune lolcat pdftotext pdfinfo pdfimages ffprobe mediainfo id3v2 uuid',
  'gofmt rustfmt clang-format black isort shellcheck shfmt hadolint yamllint taplo etags cscope addr2line c++filt',
);

/** Programs of which only these options start something. */
const RUNS_BY_OPTION: Readonly<Record<string, RunningOptions>> = {
  tar: {
    scripts:
      '-I --use-compress-program --to-command --rsh-command --info-script --new-volume-script -F --checkpoint-action',
    opaque: '--rmt-command',
    others: '--checkpoint',
    harmless: /^(?:dot|echo|bell|totals|ttyout|sleep|wait)(?:=.*)?$|^\.$/,
    prefix: 'exec=',
    stops: 'fCTXbLNKVgH',
    bundled: true,
  },
  sort: { scripts: '--compress-program', stops: 'ktSTo' },
  split: { scripts: '--filter', stops: 'abClntu' },
  install: { scripts: '--strip-program', stops: 'gmotS' },
  diff3: { scripts: '--diff-program' },
  sdiff: { scripts: '--diff-program', opaque: '-o --output' },
  patch: { opaque: '-e --ed', stops: 'BdDFgiopPrVYz' },
  cpio: { scripts: '--rsh-command', stops: 'CDEFHIMORW' },
  zip: { opaque: '-T --test -TT --unzip-command', stops: 'bitxnPszO' },
  rg: { scripts: '--pre --hostname-bin', others: '--pre-glob --no-pre', stops: 'ABCEefgjMmtTrd' },
  ag: { scripts: '--pager' },
  ack: { opaque: '--pager --output --ackrc' },
  bat: { scripts: '--pager --diff-so-fancy', stops: 'lHrm' },
  delta: { scripts: '--pager' },
  man: { scripts: '-P --pager', opaque: '-H --html --browser -C --config-file', stops: 'SLmMeEprRTX' },
  less: {
    opaque: '-k --lesskey-file --lesskey-src --lesskey-content -o -O --log-file --LOG-FILE',
    stops: 'bhjpPtTxyzD',
    plus: true,
  },
  wget: { opaque: '-e --execute --use-askpass --config', stops: 'aABDiIlOPQRStTUwX' },
  rsync: {
    scripts: '-e --rsh --rsync-path',
    opaque: '-M --remote-option --daemon --config --dparam',
    stops: 'BfT@',
    harmless: /^ssh(?: -(?:[46CTqv]+|p ?\d+|[il] ?[\w./~-]+))*$/,
  },
  'ssh-keygen': { opaque: '-D -w', stops: 'abCEfFGHIJKMNnOPRrsSTtVWYZz' },
  'ssh-add': { opaque: '-s -S', stops: 'EeHhtT' },
  openssl: { opaque: '-engine -provider -provider-path -pre -post -config', oneDash: true },
  nm: { opaque: '--plugin', others: '--portability --print-armap --print-file-name --print-size --preserve-dates' },
  cloc: { scripts: '--extract-with --vcs' },
  tree: { opaque: '-R -H', stops: 'LPIoT' },
  curl: { opaque: '--engine' },
  aria2c: {
    scripts:
      '--on-download-start --on-download-pause --on-download-stop --on-download-complete --on-download-error --on-bt-download-complete',
    opaque: '--conf-path',
  },
  cowsay: { opaque: '-f', stops: 'eTW' },
  gpg: {
    scripts: '--photo-viewer --agent-program --dirmngr-program --keyboxd-program --exec-path',
    opaque: '--options --homedir --gpg-agent-info',
    stops: 'aokruRsNc',
  },
  tcpdump: { scripts: '-z', stops: 'BcCEFGijmMQrsTVwyZ' },
  nc: { scripts: '-e -c --exec --sh-exec --lua-exec', stops: 'iIOopPqsTVwXx' },
  svn: { scripts: '--editor-cmd --diff-cmd --diff3-cmd', opaque: '--config-option --config-dir' },
  hg: { scripts: '-e --ssh --remotecmd --command -t --tool', opaque: '--config --debugger' },
  fzf: { opaque: '--preview --bind --with-shell --listen-unsafe' },
};
const ALIASES: Readonly<Record<string, string>> = {
  gtar: 'tar',
  bsdtar: 'tar',
  gsort: 'sort',
  gsplit: 'split',
  ginstall: 'install',
  batcat: 'bat',
  more: 'less',
  most: 'less',
  pager: 'less',
  apropos: 'man',
  whatis: 'man',
  ncat: 'nc',
  netcat: 'nc',
  gpg2: 'gpg',
  ar: 'nm',
  ranlib: 'nm',
  objdump: 'nm',
  objcopy: 'nm',
  size: 'nm',
  strip: 'nm',
  cowthink: 'cowsay',
};

/** Returns the options of a program of that table. */
export const runningOptionsOf = (program: string): RunningOptions | undefined => {
  const name = ALIASES[program] ?? program;
  return Object.hasOwn(RUNS_BY_OPTION, name) ? RUNS_BY_OPTION[name] : undefined;
};

/** Programs that may start any program among their words, and code of the folder. */
const MAY_START = names(
  othersCode('package managers'),
  othersCode('build tools'),
  othersCode('tests and linters'),
  othersCode('other machines and containers'),
  othersCode('archives and documents that run code'),
  othersCode('version control, beyond what only reads'),
  'identify java javac jar javadoc kotlinc scalac rustc rustdoc clippy-driver golangci-lint gofumpt goimports msbuild xcodebuild swiftc clang-tidy flake8 pyright basedpyright bandit coverage sphinx-build mkdocs uvicorn gunicorn hypercorn flask django-admin celery alembic rails rubocop puma phpcs phpcbf phpstan psalm artisan next nuxt astro ng nest prisma drizzle-kit tsup tsd rimraf mkdirp http-server serve storybook expo react-native flutter dart commitlint semantic-release changeset oxlint oxfmt knip depcheck madge size-limit publint attw markdown-link-check protoc buf grpcurl act fastlane handfast wasm-pack trunk maturin cibuildwheel hypothesis ipdb systemctl service journalctl loginctl open xdg-open mount umount ip iptables nft ufw swapon losetup fdisk mkfs useradd usermod groupadd passwd visudo update-alternatives ldd markdownlint markdownlint-cli2 tree-sitter ctags',
);

/** A version, or the folder of an environment, in place of a program. */
const PYTHON_VERSION =
  /^(?:(?:cpython|pypy|graalpy|python)[@-]?)?\d[\w.+-]*$|(?:^|\/)\.?venv(?:\/bin\/python[\d.]*)?$/i;

/** Their options that run a command line or code, which a word alone does not tell. */
export const MAY_START_OPTIONS: Readonly<Record<string, RunningOptions>> = {
  npm: {
    scripts: '-c --call --script-shell --shell --browser',
    opaque:
      '--node-options --init-module --git --editor --viewer --userconfig --globalconfig --node-gyp --onload-script --python',
    others: '--global --user --node --init',
    stops: 'CwS',
  },
  npx: { scripts: '-c --call --script-shell --shell', opaque: '--node-options --node-arg -n', stops: 'pw' },
  pnpm: {
    scripts: '-c --shell-mode --script-shell --config.script-shell --config.shell',
    opaque: '--node-options --config.node-options --config.userconfig',
    others: '--config',
    stops: 'CF',
  },
  make: { opaque: '--eval -E', stops: 'CfIjloW' },
  ninja: { opaque: '-t' },
  gcc: { opaque: '-wrapper -fplugin -specs', oneDash: true },
  cargo: { opaque: '--config -Z' },
  deno: { opaque: '--eval --v8-flags' },
  bun: { opaque: '-e --eval -p --print' },
  java: { opaque: '-XX:OnError -XX:OnOutOfMemoryError -XX:Flags -XX:VMOptionsFile', oneDash: true },
  go: { scripts: '-exec --exec -toolexec --toolexec -vettool --vettool', oneDash: true },
  apt: {
    opaque: '-o --option -c --config-file',
    stops: 'ta',
    // Settings that name no program, hook, folder or proxy.
    harmless:
      /^(?!.*invoke)(?:acquire::(?!.*(?:proxy|method|bin))|apt::(?!.*(?:hook|solver|planner|compress))|dpkg::(?:options::|use-pty|lock|progress))/i,
  },
  rpm: { opaque: '-E --eval -D --define --pipe --macros --rcfile --load', stops: 'r' },
  pip: { scripts: '--python --editor', harmless: PYTHON_VERSION },
  uv: { scripts: '-p --python', harmless: PYTHON_VERSION },
  helm: { scripts: '--post-renderer' },
  gem: { opaque: '--config-file' },
};

/** Programs of these lists whose files are code. */
const READS_FILES = names(
  othersCode('build tools'),
  othersCode('tests and linters'),
  'deno bun go rake mix composer ansible-playbook java kotlinc scalac rustc swift swiftc coverage sphinx-build mkdocs uvicorn gunicorn flask rails artisan fab invoke pre-commit act',
);
export const readsCode = (program: string): boolean => READS_FILES.has(program);

/** True for a program of that kind. */
export const mayStart = (program: string): boolean => MAY_START.has(program) || MAY_START.has(withoutVersion(program));

/** Subcommands of package managers and of others whose words name packages, or things to show: no word of them is started. */
export const NAMES_PACKAGES = names(
  'install add remove i rm uninstall un upgrade update up outdated info view show search list ls why audit ci dedupe prune fund link unlink pack publish version login logout whoami get download fetch tree metadata vendor sync lock freeze ps images logs inspect pull push tag diff status describe config-view top port',
);

/**
 * Every other program that starts others, runs code of another language or talks to one that does: the programs that run are
 * not in the line.
 */
export const HIDES = names(
  othersCode('programs that start others'),
  othersCode('interpreters'),
  'atd crond anacron fc bind busctl gdbus dbus-send qdbus capsh cgexec aa-exec runcon bwrap firejail proot fakeroot fakechroot faketime chpst softlimit envdir setlock setuidgid s6-setuidgid s6-envdir daemon daemonize dtach abduco reptyr eatmydata catchsegv sg newgrp hyperfine pv telnet sftp ftp lftp socat dialog tcpserver inetd xinetd runit sv exiftool supervisorctl supervisord forever gdbserver rr bpftrace stap sysdig',
);
