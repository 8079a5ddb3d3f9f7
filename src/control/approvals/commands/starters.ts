/**
 * Programs that start another one, with the options that stand before it: from the manuals of coreutils, util-linux, findutils,
 * procps, sudo, strace and systemd. Data.
 */

/** Syntax of a program that starts another one. */
export interface Starter {
  /** Options that take the next word, or the rest of their own, as their value. */
  readonly values?: string;
  /** Options that stand alone. */
  readonly flags?: string;
  /** Options whose value can only stand in their own word. */
  readonly optional?: string;
  /** Options whose value is a command line. */
  readonly scripts?: string;
  /** Options whose value is a command line where it begins with `|` or `!`. */
  readonly pipes?: string;
  /** Operands before the program. */
  readonly operands?: number;
  /** `NAME=value` may stand before the program. */
  readonly assigns?: boolean;
  /** With these options it starts nothing. */
  readonly shows?: string;
  /** Its operands are joined with spaces and given to a shell. */
  readonly joined?: boolean;
  /** Without a program it starts a shell, which reads commands from its input. */
  readonly shell?: boolean;
  /**
   * The program counts, this one does not: it adds time, priority or output buffers and nothing else. Only without the
   * options in `values`, except those in `harmless`.
   */
  readonly transparent?: boolean;
  readonly harmless?: string;
  /** Flags with which it counts all the same: without variables a shell looks for programs elsewhere, also in the folder. */
  readonly clears?: string;
  /** The program gets further arguments that are not in the line. */
  readonly more?: boolean;
  /** The words of the program end here. */
  readonly ends?: RegExp;
}

const HELP = '--help --version';
const NAMESPACES = '-m --mount -u --uts -i --ipc -n --net -p --pid -U --user -C --cgroup -T --time';

export const STARTERS: Readonly<Record<string, Starter>> = {
  builtin: { transparent: true },
  busybox: { shows: `--list --list-full --install ${HELP}` },
  caffeinate: { values: '-t -w', flags: '-d -i -m -s -u' },
  choom: { values: '-n --adjust -p --pid', shows: `-h -V ${HELP}` },
  chroot: { values: '--userspec --groups', flags: '--skip-chdir', shows: HELP, operands: 1, shell: true },
  chrt: {
    values: '-T --sched-runtime -P --sched-period -D --sched-deadline',
    flags:
      '-b --batch -d --deadline -e --ext -f --fifo -i --idle -o --other -r --rr -R --reset-on-fork -a --all-tasks -p --pid -v --verbose',
    shows: `-m --max -h -V ${HELP}`,
    operands: 1,
  },
  command: { flags: '-p', shows: '-v -V', transparent: true },
  doas: { values: '-a -C -u', flags: '-n -s -L', shell: true },
  env: {
    values: '-u -C --unset --chdir -a --argv0',
    flags: '-i -0 -v - --ignore-environment --null --debug --list-signal-handling',
    optional: '--block-signal --default-signal --ignore-signal',
    clears: '-i - --ignore-environment',
    shows: HELP,
    assigns: true,
    transparent: true,
  },
  exec: { values: '-a', flags: '-c -l', clears: '-c -l', transparent: true },
  flock: {
    values: '-w -E --timeout --wait --conflict-exit-code --start --length',
    flags: '-s -x -e -u -n -o -F --shared --exclusive --unlock --nonblock --nb --close --no-fork --verbose --fcntl',
    scripts: '-c --command',
    shows: `-h -V ${HELP}`,
    operands: 1,
  },
  ionice: {
    values: '-c -n --class --classdata -p --pid -P --pgid -u --uid',
    flags: '-t --ignore',
    harmless: '-c -n --class --classdata',
    shows: `-h -V ${HELP}`,
    transparent: true,
  },
  jobs: { flags: '-l -n -p -r -s -x' },
  ltrace: {
    values: '-a -A -D -e -F -l -n -o -p -s -u -w -x',
    flags: '-b -c -C -f -i -L -r -S -t -tt -T',
    pipes: '-o --output',
    shows: '-h -V --help --version',
  },
  nice: { values: '-n --adjustment', harmless: '-n --adjustment', shows: HELP, transparent: true },
  nohup: { shows: HELP, transparent: true },
  nsenter: {
    values: '-t --target -S --setuid -G --setgid -N --net-socket',
    flags:
      '-a --all --preserve-credentials --keep-caps -F --no-fork -Z --follow-context -e --env -c --join-cgroup --user-parent',
    optional: `${NAMESPACES} -r --root -w --wd -W --wdns`,
    shows: `-h -V ${HELP}`,
    shell: true,
  },
  numactl: {
    values:
      '-i -m -N -C -p -P -w --interleave --membind --cpunodebind --physcpubind --preferred --preferred-many --weighted-interleave',
    flags: '-l -a -b --localalloc --all --balancing',
    shows: '-H -s --hardware --show',
  },
  parallel: {
    values:
      '-j --jobs -P -a --arg-file -I -n --max-args -N -L -d --delimiter -C --colsep --tmpdir --joblog --timeout --delay',
    flags:
      '-k -X -m -u -0 -q --keep-order --ungroup --null --no-notice --will-cite --dry-run --line-buffer --lb --halt-on-error',
    shows: HELP,
    more: true,
    joined: true,
    shell: true,
    ends: /^:{3,4}\+?$/,
  },
  prlimit: {
    values: '-p --pid -o --output',
    flags: '--noheadings --raw --verbose',
    optional:
      '-c --core -d --data -e --nice -f --fsize -i --sigpending -l --memlock -m --rss -n --nofile -q --msgqueue -r --rtprio -s --stack -t --cpu -u --nproc -v --as -x --locks -y --rttime',
    shows: `-h -V ${HELP}`,
  },
  proxychains: { values: '-f', flags: '-q' },
  proxychains4: { values: '-f', flags: '-q' },
  rlwrap: { flags: '-a -c' },
  setpriv: {
    values:
      '--ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid --groups --securebits --pdeathsig --ptracer --selinux-label --apparmor-profile --landlock-access --landlock-rule --seccomp-filter',
    flags: '--nnp --no-new-privs --clear-groups --keep-groups --init-groups --reset-env',
    shows: `-d --dump --list-caps -h -V ${HELP}`,
  },
  setsid: { flags: '-c -f -w --ctty --fork --wait', shows: `-h -V ${HELP}` },
  stdbuf: {
    values: '-i -o -e --input --output --error',
    harmless: '-i -o -e --input --output --error',
    shows: HELP,
    transparent: true,
  },
  strace: {
    values:
      '-a -b -e -E -I -o -O -p -P -s -S -u -U -X --attach --columns --detach-on --env --output --overhead --trace-path --string-limit --summary-sort-by --summary-columns --user --argv0 --trace --abbrev --verbose --raw --signal --status --read --write --fault --inject --kvm --strings-in-hex --const-print-style',
    flags:
      '-A -c -C -d -f -ff -D -DD -DDD -F -h -i -k -n -N -q -qq -qqq -r -t -tt -ttt -T -v -V -w -x -xx -y -yy -Y -z -Z --output-append-mode --summary --summary-only --follow-forks --output-separately --instruction-pointer --stack-traces --no-abbrev --successful-only --failed-only --debug --syscall-number --decode-pids',
    optional:
      '--interruptible --daemonize --quiet --relative-timestamps --absolute-timestamps --timestamps --syscall-times --decode-fds --seccomp-bpf --tips',
    pipes: '-o --output',
    shows: HELP,
  },
  sudo: {
    values:
      '-a -C -c -D -g -h -p -R -r -t -T -u -U --auth-type --close-from --chdir --group --host --prompt --chroot --role --type --command-timeout --user --other-user --login-class',
    flags:
      '-A -B -b -E -H -i -k -K -n -N -P -S -s --askpass --background --bell --login --shell --non-interactive --no-update --preserve-groups --set-home --stdin --reset-timestamp --remove-timestamp',
    optional: '--preserve-env',
    shows: '-l -v -V -e --list --validate --version --edit --help',
    assigns: true,
    shell: true,
  },
  'systemd-run': {
    values:
      '-p -u -E -M -H --unit --property --slice --description --uid --gid --nice --working-directory --setenv --machine --host --on-active --on-boot --on-startup --on-unit-active --on-unit-inactive --on-calendar --timer-property --path-property --socket-property --service-type --background --job-mode',
    flags:
      '-t -P -q -G -d -S -r -v --user --system --scope --pty --pty-late --pipe --wait --collect --quiet --remain-after-exit --send-sighup --no-block --no-ask-password --same-dir --shell --slice-inherit --on-timezone-change --on-clock-change --ignore-failure --expand-environment',
    shows: `-h ${HELP}`,
    shell: true,
  },
  taskset: { flags: '-a -p -c --all-tasks --pid --cpu-list', shows: `-h -V ${HELP}`, operands: 1 },
  time: {
    values: '-f -o --format --output',
    flags: '-p -a -v -q --portability --append --verbose --quiet',
    shows: `-V ${HELP}`,
    transparent: true,
  },
  timeout: {
    values: '-k -s --kill-after --signal',
    harmless: '-k -s --kill-after --signal',
    flags: '-v -p -f --foreground --preserve-status --verbose',
    shows: HELP,
    operands: 1,
    transparent: true,
  },
  torsocks: { flags: '-i' },
  toybox: { shows: '--long --help --version' },
  uclampset: {
    values: '-m -M -p --util-min --util-max --pid',
    flags: '-a -s -R -v --all-tasks --system --reset-on-fork --verbose',
  },
  unbuffer: { flags: '-p' },
  unshare: {
    values:
      '-R -w -S -G -l --root --wd --setuid --setgid --map-user --map-group --map-users --map-groups --propagation --setgroups --monotonic --boottime --load-interp',
    flags: '-f -r -c --fork --map-root-user --map-current-user --map-auto --map-subids --keep-caps --forward-signals',
    optional: `${NAMESPACES} --kill-child --mount-proc --mount-binfmt`,
    shows: `-h -V ${HELP}`,
    shell: true,
  },
  watch: {
    values: '-n --interval -q --equexit -s --shotsdir',
    flags:
      '-b -c -C -e -f -g -p -r -t -w -x --beep --color --no-color --errexit --follow --chgexit --precise --no-rerun --no-title --no-wrap --exec',
    optional: '-d --differences',
    shows: `-h -v ${HELP}`,
    joined: true,
  },
  xargs: {
    values: '-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --arg-file --max-chars --process-slot-var',
    flags: '-0 -r -t -x -p -o --null --no-run-if-empty --verbose --interactive --exit --open-tty --show-limits',
    optional: '-i -l -e --replace --max-lines --eof',
    shows: HELP,
    more: true,
  },
};
