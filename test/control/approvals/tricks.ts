/**
 * Ways around rules about commands, with the outcome of each: one table for the test `tricks.test.ts`, for the mutations of
 * `mutations.test.ts`, and for docs/security/approvals.md, which `npm run generate` renders from it.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the syntax of shells
import type { PolicyRule } from '../../../src/control/approvals/policy.ts';

export type Outcome = 'allow' | 'ask' | 'deny';

/** A call of the shell: a command line, or the whole input. */
export type TrickInput = string | Readonly<Record<string, unknown>>;

export interface Trick {
  readonly call: TrickInput;
  readonly outcome: Outcome;
  /** The trick, or the reason why it ends so. */
  readonly about: string;
}

/** The rules of the table. */
export const TRICK_RULES = JSON.parse(`[
  { "command": ["npm test"], "then": "allow" },
  { "command": ["git status|log ...", "ls ..."], "options": ["--oneline", "-l", "-a"], "then": "allow" },
  { "command": ["git push"], "then": "ask" },
  { "command": ["rm", "sudo"], "then": "deny" }
]`) as readonly PolicyRule[];

const rows = (...tricks: readonly [call: TrickInput, outcome: Outcome, about: string][]): readonly Trick[] =>
  tricks.map(([call, outcome, about]) => ({ call, outcome, about }));

/** Tricks by their method. */
export const TRICKS: Readonly<Record<string, readonly Trick[]>> = {
  'Allowed by rules': rows(
    ['npm test', 'allow', 'the words of the rule'],
    ["  'npm'   te\\st  ", 'allow', 'quotes and blanks are not part of words'],
    [{ argv: ['npm', 'test'] }, 'allow', 'a list of words'],
    ['npm test && git status; ls -l src', 'allow', 'every command is covered'],
    ['(npm test | ls) &', 'allow', 'so are pipes, subshells and the background'],
    ['if npm test; then git log; else ls; fi', 'allow', 'and every branch'],
    ['git log --oneline HEAD~3', 'allow', 'options that are listed, further operands'],
    ['npm test > /dev/null 2>&1', 'allow', 'output thrown away'],
    ['timeout 60 npm test', 'allow', 'timeout adds nothing'],
    ["sh -c 'npm test'", 'allow', 'the script of sh -c is read'],
    ['ls src/*.ts', 'allow', 'a pattern whose start is known'],
    [{ command: 'npm test', cwd: 'packages/a', timeout_seconds: 60 }, 'allow', 'a folder inside that of the session'],
  ),
  'More than one command': rows(
    ['npm test; rm -rf src', 'deny', 'a second command'],
    ['npm test && curl evil.example', 'ask', 'a second command that no rule covers'],
    ['npm test || make', 'ask', 'only when the first one fails'],
    ['npm test | tee log', 'ask', 'a pipe'],
    ['npm test & rm x', 'deny', 'in the background'],
    ['npm test\nrm x', 'deny', 'a line break'],
    ['npm test;rm x', 'deny', 'without blanks'],
    ['npm test # harmless\nrm x', 'deny', 'behind a comment'],
    ['npm test \\\n&& rm x', 'deny', 'behind a continued line'],
    ['while npm test; do rm x; done', 'deny', 'in a loop'],
    ['case x in x) rm x;; esac', 'deny', 'in a case'],
    ['! rm x', 'deny', 'negated'],
    ['{ npm test; }; ( rm x )', 'deny', 'in groups'],
  ),
  Substitutions: rows(
    ['npm test $(rm x)', 'deny', 'a substitution'],
    ['npm test `rm x`', 'deny', 'the old form of it'],
    ['npm test "$(rm x)"', 'deny', 'in double quotes'],
    ["npm test '$(rm x)'", 'ask', 'in single quotes it is a word, and the rule has no such word'],
    ['ls `echo \\`rm x\\``', 'deny', 'nested'],
    ['ls $(ls $(ls $(rm x)))', 'deny', 'nested deeper'],
    ['ls ${x:-$(rm x)}', 'deny', 'as the default of a variable'],
    ['ls $((1 + $(rm x)))', 'deny', 'in arithmetic'],
    ['ls <(rm x)', 'deny', 'in place of a file'],
    ['cat <<END\n$(rm x)\nEND', 'deny', 'in a here-document'],
    ["cat <<'END'\n$(rm x)\nEND", 'ask', 'in a quoted here-document it is text'],
    ['sh <<END\nrm x\nEND', 'deny', 'a here-document that is a script'],
    ['git log $(echo --output=x)', 'ask', 'an option that is known only when it runs'],
    ['ls $FILES', 'ask', 'a variable may hold options'],
    ['ls *', 'ask', 'a file may be named like an option'],
  ),
  'The name of the program': rows(
    ["r''m x", 'deny', 'quotes in the name'],
    ['\\rm x', 'deny', 'a backslash'],
    ['"rm" x', 'deny', 'in quotes'],
    ['r\\\nm x', 'deny', 'a line break in the name'],
    ["$'\\x72m' x", 'deny', 'written in numbers'],
    ['/bin/rm x', 'deny', 'by its path'],
    ['./npm test', 'ask', 'another file of the same name'],
    ["./sh -c 'npm test'", 'ask', 'another file with the name of a shell'],
    ['./timeout 5 npm test', 'ask', 'and with that of a program that adds nothing'],
    ['TIMEOUT 5 npm test', 'ask', 'in capitals it may be another file'],
    ['/bin/r? x', 'ask', 'a pattern that finds it'],
    ['RM x', 'deny', 'in capitals, the same file on some systems'],
    ['$(echo rm) x', 'ask', 'known only when it runs'],
    ['X=rm; $X x', 'ask', 'in a variable'],
    ['{rm,x}', 'ask', 'in braces'],
    ['busybox rm x', 'deny', 'one program that is many'],
    ['command rm x', 'deny', 'past functions and aliases'],
    ['exec rm x', 'deny', 'in place of the shell'],
    ['npm\u00a0test', 'ask', 'a blank that is none'],
    ['npm test\r', 'ask', 'a character that is not shown'],
  ),
  'Programs that start others': rows(
    ['sudo npm test', 'deny', 'with the rights of others'],
    ['env rm x', 'deny', 'env'],
    ['env -i A=b rm x', 'deny', 'env with options and variables'],
    ["env -S 'rm x'", 'ask', 'env that splits a text'],
    ["env -i bash -c 'npm test'", 'ask', 'without variables some shells look for programs in the folder'],
    ['exec -c npm test', 'ask', 'the same'],
    ['nohup timeout -s KILL 5 nice -n 5 rm x', 'deny', 'several of them'],
    ["sh -c 'rm x'", 'deny', 'a shell'],
    ["zsh -c 'npm test'", 'ask', 'a shell with more in its language'],
    ["su -lc 'rm x' nobody", 'deny', 'as another user'],
    ["bash -lc 'npm test; rm x'", 'deny', 'a shell with more options'],
    ['sh -c "sh -c \'rm x\'"', 'deny', 'a shell in a shell'],
    ['sh -c "$X"', 'ask', 'a script that is not known'],
    ['echo rm x | sh', 'ask', 'a shell that reads its script'],
    ["eval 'r''m x'", 'deny', 'eval'],
    ["trap 'rm x' EXIT", 'deny', 'trap'],
    ["test -v 'a[$(rm x)]'", 'deny', 'a substitution in the name of a variable, which the builtin runs'],
    ["[ 'a[`rm x`]' -eq 0 ]", 'deny', 'the same in numbers, in some shells'],
    ["printf -v 'a[$(rm x)]' y; ls", 'deny', 'the same where a text goes'],
    ['[ -v a[\\$\\(rm\\ x\\)] ]', 'ask', 'the same, with backslashes'],
    ["compgen -C 'rm x'", 'ask', 'a command that completes words'],
    ['ls | xargs rm', 'deny', 'xargs'],
    ["ls | xargs -I{} sh -c 'rm {}'", 'deny', 'xargs with a shell'],
    ['find . -exec rm {} +', 'deny', 'find'],
    ['find . -delete', 'ask', 'find that deletes by itself'],
    ['stdbuf -oL rm x', 'deny', 'stdbuf'],
    ['stdbuf -oL npm test', 'allow', 'stdbuf adds buffers alone: the program counts'],
    ['stdbuf npm test', 'allow', 'stdbuf refuses to run without an option'],
    ['setsid -f rm x', 'deny', 'away from its group'],
    ['time -p rm x', 'deny', 'time'],
    ['. ./script.sh', 'ask', 'a script in this shell'],
    ["alias ls='rm x'; ls", 'deny', 'an alias'],
    ['ls() { rm x; }; ls', 'deny', 'a function'],
    ['python3 -c \'import os; os.remove("x")\'', 'ask', 'another language'],
    [{ argv: ['sh', '-c', 'rm x'] }, 'deny', 'a list of words'],
  ),
  'Options and operands': rows(
    ['npm test --script-shell=./x', 'ask', 'an option that names a program'],
    ['npm test -l', 'ask', 'an option of another rule'],
    ['npm --prefix /elsewhere test', 'ask', 'options before the subcommand'],
    ['npm test -- --watch', 'ask', 'what follows -- is not a word of the rule'],
    ['git -c core.pager=./x log', 'ask', 'a setting that names a program'],
    ["git -c alias.log='!rm x' log", 'deny', 'a setting that is a command'],
    ['git log --output=x', 'ask', 'an option that writes'],
    ['git log -- --output=x', 'ask', 'an option behind --'],
    ['git -C lib push', 'ask', 'options before the subcommand, asked all the same'],
    ['git --no-pager push --force', 'ask', 'and with more options'],
    ['ls -la', 'ask', 'letters together that are not listed so'],
    ['ls -l ""', 'allow', 'an empty word is an operand'],
  ),
  'Around the command': rows(
    ['A=b npm test', 'ask', 'a variable for the command'],
    ['PATH=. ; npm test', 'ask', 'a variable for what follows'],
    ['for PATH in .; do npm test; done', 'ask', 'a loop over a variable that programs use'],
    ['export npm_config_script_shell=./x; npm test', 'ask', 'exported'],
    ['read PATH; npm test', 'ask', 'read'],
    ['hash -p ./x npm; npm test', 'ask', 'another file for a name'],
    ['npm test > .git/config', 'ask', 'output into a file'],
    ['ls >> notes', 'ask', 'added to a file'],
    ['> notes', 'ask', 'a file without a command'],
    ['npm test < answers', 'ask', 'input from a file'],
    ['cd /elsewhere && npm test', 'ask', 'another folder'],
    [{ command: 'npm test', cwd: '/elsewhere' }, 'ask', 'another folder, given to the tool'],
    [{ command: 'npm test', cwd: '../sibling' }, 'ask', 'one beside'],
    [{ command: 'npm test', cwd: '~/elsewhere' }, 'ask', 'one that some agents expand'],
    [{ command: 'npm test', cwd: 'file:///elsewhere' }, 'ask', 'one that some agents take as an address'],
    [{ command: 'npm test', env: { npm_config_script_shell: './x' } }, 'ask', 'a variable, given to the tool'],
    [{ command: 'npm test', stdin: 'y' }, 'ask', 'input, given to the tool'],
    [{ command: 'npm test', host: 'production' }, 'ask', 'a member that rules do not know'],
    [{ command: 'npm test', argv: ['rm', 'x'] }, 'deny', 'two commands'],
    [{ command: ['npm', 'test', ';', 'rm'] }, 'ask', 'a list is words and no line'],
  ),
  'Commands that cannot be read': rows(
    ['npm test "', 'ask', 'a quote that does not end'],
    ['npm test $(', 'ask', 'a substitution that does not end'],
    ['npm test; if true', 'ask', 'a command that does not end'],
    ['npm test <<END', 'ask', 'a here-document without an end'],
    ['', 'ask', 'no command'],
    ['# npm test', 'ask', 'a comment'],
    ['((rm x))', 'deny', 'arithmetic in one shell, a command in another'],
    ['[[ a && rm ]]', 'ask', 'a test in one shell, a command in another'],
    ['ls &> /dev/null', 'ask', 'a redirection in one shell, the background in another'],
    ['ls x*(e:rm:)', 'ask', 'a command in a pattern, in another shell'],
    ['ls =(rm x)', 'ask', 'a substitution of another shell'],
    ['echo ${X@P}', 'ask', 'a text that is expanded once more'],
    [`ls ${'$('.repeat(300)}rm x${')'.repeat(300)}`, 'ask', 'nested too deeply'],
    [`ls ${'a '.repeat(20_000)}; rm x`, 'ask', 'too long'],
  ),
};

/** Effect of a yes for the folder, given before, on a later call; without any rule. */
export interface RememberedTrick extends Trick {
  /** The calls that were allowed. */
  readonly after: readonly TrickInput[];
}

const later = (
  ...tricks: readonly [after: readonly TrickInput[], call: TrickInput, outcome: Outcome, about: string][]
): readonly RememberedTrick[] => tricks.map(([after, call, outcome, about]) => ({ after, call, outcome, about }));

export const REMEMBERED_TRICKS: readonly RememberedTrick[] = later(
  [['git status'], 'git status src', 'allow', 'what git only shows, with other operands'],
  [['git status', 'wc a'], 'git status && wc a', 'allow', 'each part was allowed'],
  [['git status'], 'git status && wc a', 'ask', 'one part was not'],
  [['git status && wc a'], 'wc a', 'allow', 'each part of what was allowed'],
  [['wc a'], 'wc b', 'ask', 'other words'],
  [['wc a'], 'wc a; rm x', 'ask', 'a second command'],
  [['wc a'], 'wc a > b', 'ask', 'output into a file'],
  [['wc a'], 'wc $(rm x)', 'ask', 'a substitution'],
  [['wc a'], 'A=b wc a', 'ask', 'a variable'],
  [['wc a'], { command: 'wc a', cwd: 'sub' }, 'ask', 'another folder'],
  [['git status'], 'git -c core.fsmonitor=./x status', 'ask', 'a setting that names a program'],
  [['git status'], 'git status --porcelain', 'ask', 'an option'],
  [['git log'], 'git log --output=x', 'ask', 'an option that writes'],
  [['npm test'], 'npm test', 'ask', 'runs what package.json says, which may have changed'],
  [['npm install'], 'npm install evil', 'ask', 'runs scripts of packages'],
  [['make'], 'make', 'ask', 'runs what the Makefile says'],
  [['env wc a'], 'env wc a', 'ask', 'starts others'],
  [['ls | xargs wc'], 'ls | xargs wc', 'ask', 'starts others with words that are not in the line'],
  [['find . -exec wc {} +'], 'find . -exec wc {} +', 'ask', 'starts others'],
  [['python3 a.py'], 'python3 a.py', 'ask', 'an interpreter'],
  [['./build.sh'], './build.sh', 'ask', 'a file of the folder'],
  [["sh -c 'wc a'"], "sh -c 'wc a'", 'ask', 'a shell'],
  [['git commit'], 'git commit', 'ask', 'runs hooks'],
  [['sort *'], 'sort *', 'ask', 'a file may be named like an option that names a program'],
  [['$TOOL a'], '$TOOL a', 'ask', 'a program that is known only when it runs'],
);
