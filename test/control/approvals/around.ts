/**
 * Command lines for the rules `deny touch` and `deny git push`: ways to start a denied program through another one, and
 * everyday lines that start no denied program. `around.slow.test.ts` runs those that can be run, in real shells.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the syntax of shells

/**
 * Returns the lines of a text; a line break within one is written as `
 * `.
 */
const lines = (text: string): readonly string[] =>
  text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.replaceAll('⏎', '\n'));

/** Each starts `touch M` in a real shell, where its programs are installed. `list` holds `M`, `z.sh` holds `touch M`. */
export const AROUND: Readonly<Record<string, readonly string[]>> = {
  'the program itself': lines(String.raw`
touch M
/usr/bin/touch M
/usr/bin/../bin/touch M
/usr/bin/tou?h M
/usr/bin/[t]ouch M
t''ouch M
t\ouch M
\touch M
to""uch M
"touch" M
'touch' M
$'\x74ouch' M
$'touch' M
{touch,M}
t{ouch,} M
$(echo touch) M
${'`'}echo touch${'`'} M
T=touch; $T M
T=tou; ${'$'}{T}ch M
to$@uch M
to${'$'}{x}uch M
a=(touch M); "${'$'}{a[@]}"
set -- touch M; "$@"
printf -v p touch; $p M
x=(t o u c h); "${'$'}{x[0]}${'$'}{x[1]}${'$'}{x[2]}${'$'}{x[3]}${'$'}{x[4]}" M
if touch M; then :; fi
while touch M; do break; done
for i in 1; do touch M; done
case a in *) touch M;; esac
{ touch M; }
(touch M)
! touch M
touch M &
true && touch M
false || touch M
: | touch M
: $(touch M)
: "$(touch M)"
: ${'$'}{x:-$(touch M)}
: ${'$'}{x:=$(touch M)}
: $((1 + $(touch M; echo 1)))
cat <(touch M)
: > >(touch M)
[[ $(touch M) ]]
(( $(touch M; echo 1) ))
echo {1..2}$(touch M)
ln -s /usr/bin/touch ./zz; ./zz M
ln /usr/bin/touch ./zz; ./zz M
cp /usr/bin/touch ./zz; ./zz M
cp /usr/bin/touch . ; ./touch M
install -m 755 /usr/bin/touch zz; ./zz M
cat /usr/bin/touch > zz; chmod +x zz; ./zz M
dd if=/usr/bin/touch of=zz status=none; chmod +x zz; ./zz M
tee zz < /usr/bin/touch > /dev/null; chmod +x zz; ./zz M
`),
  wrappers: lines(String.raw`
env touch M
env -u A touch M
env -uA touch M
env -i touch M
env - touch M
env -- touch M
env -C . touch M
env --chdir=. touch M
env --chd=. touch M
env --chdir . touch M
env A=1 B=2 touch M
env A=$X touch M
env -S'touch M'
env -S 'touch M'
env -vS 'touch M'
env --split-string='touch M'
env --split='touch M'
env --sp 'touch M'
env --ignore-environment touch M
env --ig touch M
env env env touch M
nice touch M
nice -5 touch M
nice -n5 touch M
nice -n 5 touch M
nice --adjustment=5 touch M
nice --adj=5 touch M
nohup touch M
stdbuf -o0 touch M
stdbuf -o 0 touch M
stdbuf --output=0 touch M
stdbuf --out=0 touch M
timeout 5 touch M
timeout 5s touch M
timeout -s 9 5 touch M
timeout -s9 5 touch M
timeout --signal=9 5 touch M
timeout --sig=9 5 touch M
timeout --sig 9 5 touch M
timeout --k=1 5 touch M
timeout --foreground 5 touch M
timeout --fore -k1 5 touch M
time touch M
time -p touch M
/usr/bin/env touch M
setsid touch M
setsid -w touch M
setsid --wait touch M
setsid --wa touch M
setpriv touch M
setpriv --no-new-privs touch M
setpriv --nnp touch M
setpriv --no-new touch M
prlimit touch M
prlimit --nofile=100 touch M
prlimit -n100 touch M
prlimit --nof=100 touch M
prlimit --nofile=100 --cpu=10 touch M
ionice touch M
ionice -c3 touch M
ionice -c 3 touch M
ionice --class 3 touch M
chrt -o 0 touch M
chrt --other 0 touch M
taskset 1 touch M
taskset -c 0 touch M
taskset --cpu-list 0 touch M
choom -n 100 -- touch M
choom -n 100 touch M
uclampset touch M
flock f touch M
flock f -c 'touch M'
flock -c f 'touch M'
flock -n f touch M
flock -w 1 f touch M
flock --nonblock f touch M
flock --nonb f touch M
flock f --command 'touch M'
flock f --comm 'touch M'
flock f sh -c 'touch M'
unshare touch M
unshare -r touch M
unshare -rm touch M
unshare --map-root-user touch M
unshare --map-root touch M
unshare --fork --pid touch M
nsenter touch M
chroot / touch "$PWD/M"
script -qc 'touch M' /dev/null
script -q -c 'touch M' /dev/null
script -q /dev/null -c 'touch M'
script -q --command='touch M' /dev/null
script -q --comm='touch M' /dev/null
script -q --command 'touch M' /dev/null
su -c 'touch M'
su root -c 'touch M'
su --command='touch M'
su --comm 'touch M' root
su -lc 'true; touch '"$PWD/M"
runuser -u root -- touch M
runuser -u root touch M
runuser -c 'touch M' root
runuser --command 'touch M' root
watch -g -n1 -t touch M
xargs -a list touch
xargs --arg-file=list touch
xargs --arg=list touch
echo M | xargs touch
echo M | xargs -n1 touch
echo M | xargs -n 1 touch
echo M | xargs -I % touch %
echo M | xargs -I% touch %
echo M | xargs -i touch {}
echo M | xargs --replace touch {}
echo M | xargs --max-args=1 touch
echo M | xargs --max-a=1 touch
echo M | xargs -0 touch
echo 'touch M' | xargs -I % sh -c %
echo M | xargs -r env touch
echo touch M | xargs env
echo touch M | xargs -n2 env
echo touch M | xargs nice
echo M | xargs -o touch
find . -maxdepth 0 -exec touch M ';'
find . -maxdepth 0 -exec touch M \;
find . -maxdepth 0 -exec touch M {} +
find . -maxdepth 0 -execdir touch M ';'
find . -maxdepth 0 -ok touch M ';' < list
find . -maxdepth 0 -exec sh -c 'touch M' ';'
find . -maxdepth 0 -exec env touch M ';'
find . -maxdepth 0 -name . -o -exec touch M ';' -o -exec touch M ';'
find /usr/bin/touch -exec {} M ';'
/lib64/ld-linux-x86-64.so.2 /usr/bin/touch M
/lib64/ld-linux-x86-64.so.2 --argv0 x /usr/bin/touch M
nice nohup timeout 5 env setsid -w touch M
nice -n 5 sh -c "env touch M"
strace -o /dev/null touch M
strace -f -e trace=none touch M
strace -o '|touch M' true
strace -o'|touch M' true
strace -fo '|touch M' true
`),
  'shells and builtins': lines(String.raw`
sh -c 'touch M'
bash -c 'jobs -x touch M'
bash -c "exec /proc/self/exe -c 'touch M'"
bash /dev/../dev/stdin <<< 'touch M'
bash /dev//stdin <<< 'touch M'
bash /proc/thread-self/fd/0 <<< 'touch M'
cd /dev; cd "$OLDPWD"; (cd /dev; bash stdin) <<< "touch $PWD/M"
printf 'touch M\n' > f; sort -o y.sh f; sh y.sh
sed -n 'w y.sh' z.sh; sh y.sh
sed 's/x/touch M/w y.sh' list f; awk '{print "touch M" > "y.sh"}' f; sh y.sh
sh -ec 'touch M'
sh -c -e 'touch M'
sh -e -c 'touch M'
bash -O extglob -c 'touch M'
bash --norc --noprofile -c 'touch M'
bash -o pipefail -c 'touch M'
bash +x -c 'touch M'
dash -c 'touch M'
sh -c '$0 M' touch
sh -c '"$@"' x touch M
sh -c 'shift; "$@"' x y touch M
bash -c 'eval touch M'
bash -c "$'touch' M"
bash <<< 'touch M'
echo 'touch M' | bash
echo 'touch M' | sh
echo 'touch M' | sh -s
printf 'touch M\n' | sh -
cat z.sh | sh
sh < z.sh
bash -s <<END⏎touch M⏎END
sh <<'END'⏎touch M⏎END
sh <<END⏎tou$(echo ch) M⏎END
bash /dev/stdin <<< 'touch M'
bash <(echo touch M)
source <(echo touch M)
source /dev/stdin <<< 'touch M'
. /dev/stdin <<< 'touch M'
. <(echo touch M)
eval 'touch M'
eval touch M
eval -- touch M
eval "$(echo touch M)"
trap 'touch M' EXIT
trap -- 'touch M' EXIT
bash -c 'trap "touch M" DEBUG; true'
trap 'touch M' ERR; false
command touch M
command -p touch M
builtin command touch M
builtin eval 'touch M'
exec touch M
exec -a x touch M
exec -- touch M
coproc touch M; wait
coproc X { touch M; }; wait
f() { touch M; }; f
function f { touch M; }; f
f() ( touch M ); f
function f() { command touch M; }; f
shopt -s expand_aliases; alias t='touch M'
hash -p /usr/bin/touch zz; zz M
bash -c "mapfile -C 'touch M' -c 1 a < list"
mapfile -C 'touch M;' -c 1 a < list
mapfile -c1 -C'touch M;' a < list
readarray -C 'touch M;' -c 1 a < list
compgen -C 'touch M'
bash -c 'complete -C "touch M" z; compgen -C "touch M"'
compgen -W '$(touch M)'
compgen -F f x; f() { touch M; }; f
test -v 'a[$(touch M)]'
[ -v 'a[$(touch M)]' ]
[[ -v 'a[$(touch M)]' ]]
[[ 'a[$(touch M)]' -eq 0 ]]
unset 'a[$(touch M)]'
bash -c 'unset "a[\$(touch M)]"'
bash -c 'declare "a[\$(touch M)]=1"'
bash -c 'read "a[\$(touch M)]" <<< x'
bash -c 'let "a[\$(touch M)]=1"'
printf -v 'a[$(touch M)]' x
x='a[$(touch M)]'; (( x ))
x='a[$(touch M)]'; : $((x))
x='a[$(touch M)]'; [[ $x -eq 0 ]]
x='a[$(touch M)]'; let x
x='a[$(touch M)]'; : ${'$'}{y:x}
x='a[$(touch M)]'; : ${'$'}{!x}
x='a[$(touch M)]'; declare -i y=x
x='a[$(touch M)]'; for ((;x;)); do break; done
declare -n r='a[$(touch M)]'; r=1
read x <<< 'a[$(touch M)]'; (( x ))
export x='a[$(touch M)]'; bash -c '(( x ))'
x='$(touch M)'; : "${'$'}{x@P}"
PS4='$(touch M)'; set -x; true
PS4='$(touch M)' bash -xc true
export PS4='$(touch M)'; bash -xc true
bash -c "export PS4='\$(touch M)'; set -x; true"
bash -c 'PROMPT_COMMAND="touch M" bash --norc -i' < /dev/null
while read -r c; do $c; done <<< 'touch M'
IFS=, read -ra c <<< 'touch,M'; "${'$'}{c[@]}"
select x in a; do touch M; break; done <<< 1
enable -n test; touch M
time { touch M; }
BASH_ENV=z.sh bash -c true
env BASH_ENV=z.sh bash -c true
export BASH_ENV=z.sh; bash -c true
ENV=./z.sh sh -i < /dev/null
sh z.sh; printf 'touch M\n' > z.sh; sh z.sh
printf 'touch M\n' > y.sh; sh y.sh
printf 'touch M\n' > y.sh; . ./y.sh
printf 'touch M\n' | tee y.sh > /dev/null; sh y.sh
printf 'touch M\n' > y.sh; chmod +x y.sh; ./y.sh
sed 's/x/x/' z.sh > y.sh; bash y.sh
env 'BASH_FUNC_zz%%=() { touch M; }' bash -c zz
`),
  'options of programs': lines(`
tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='touch M' f
tar cf /dev/null --checkpoint=1 --checkpoint-act=exec='touch M' f
tar cf /dev/null --checkpoint=1 --checkpoint-action exec='touch M' f
tar cf - f | tar xf - --to-command='touch M'
tar cf - f | tar xf - --to-comm='touch M'
tar cf - f | tar xf - --to-command 'touch M'
tar cf /dev/null -I 'touch M; cat' f
tar -I 'touch M; cat' -cf x.tar f
tar -I'touch M; cat' -cf x.tar f
tar cIf 'touch M; cat' x.tar f
tar --use-compress-program='touch M' -cf x.tar f
tar --use-compress='touch M' -cf x.tar f
tar --use 'touch M' -cf x.tar f
tar -cf x.tar -L1 -F 'touch M' f big
tar -cf x.tar -L1 --info-script='touch M' f big
tar -cf x.tar -L1 --new-vol='touch M' f big
split --filter='touch M' f
split --fil='touch M' f
split --filter 'touch M' f
split -b 100 z.sh y; sh yaa
echo 'touch M' | gzip > y.gz; gunzip y.gz; sh y
sort -S1 --compress-program=./z.sh big; touch M
man -P 'touch M' ls
man --pager='touch M' ls
man --pag='touch M' ls
PAGER='touch M' man ls
MANPAGER='touch M' man ls
make --eval='$(shell touch M)' -f /dev/null
make -f - <<< '$(shell touch M)'
make --file=- <<< '$(shell touch M)'
make -f /dev/stdin <<< '$(shell touch M)'
make SHELL='touch M' -f Makefile
make 'X=$(shell touch M)'
make X='touch M' -f Makefile x
make -sf- <<< '$(shell touch M)'
printf 'x:\\n\\ttouch M\\n' > Makefile; make
printf 'x:\\n\\ttouch M\\n' | tee GNUmakefile > /dev/null; make x
echo '{"scripts":{"x":"touch M"}}' > package.json; npm run x
echo '{"scripts":{"x":"touch M"}}' > package.json; node --run x
mkdir e; echo '{"scripts":{"x":"touch M"}}' > e/package.json; cp e/package.json .; npm run x
MAKEFLAGS='--eval=$(shell touch M)' make -f /dev/null
export MAKEFLAGS='--eval=$(shell touch M)'; make -f /dev/null
TAR_OPTIONS="--to-command='touch M'" tar xf f.tar
sed -n '1e touch M' f
sed '1e touch M' f
sed '1s/.*/touch M/e' f
sed 's/.*/touch M/;e' f
sed -e '1!d' -e '1e touch M' f
sed --expression='1e touch M' f
sed --exp='1e touch M' f
sed -ne '1e touch M' f
sed -n '/y/{e touch M⏎}' f
sed 's/a/b/⏎e touch M' f
sed -f <(echo 'e touch M') f
sed -n ':x e touch M' f
sed 't x e touch M⏎:x' f
sed '1e touch M' f -- --sandbox
sed -n -e '1e touch M' f -- --sandbox
echo 'e touch M' | sed -f - f
awk 'BEGIN{system("touch M")}'
awk 'BEGIN{print "touch M" | "sh"}'
awk 'BEGIN{"touch M" | getline}'
awk 'BEGIN{"touch M"|getline x}'
awk -f <(echo 'BEGIN{system("touch M")}')
echo 'BEGIN{system("touch M")}' | awk -f -
awk 'BEGIN { x = 4 / 2; print 1 | "touch M"; y = 4 / 2 }'
awk "$(echo 'BEGIN{system("touch M")}')"
awk 'BEGIN{if (1) /"/; system("touch M"); /"/}'
awk 'BEGIN{print /"/; system("touch M"); print /"/}'
printf 'x:\\n\\ttouch M\\n' > y; make -f y
printf 'x:\\n\\ttouch M\\n' > y; make -fy
printf 'require("child_process").execSync("touch M")' > y.js; node -r ./y.js f.js
printf 'require("child_process").execSync("touch M")' > y.js; node --require=./y.js f.js
printf 'Host *\\nProxyCommand touch M\\n' > cfg; ssh -F cfg x true
python3 -im this <<< 'import os; os.system("touch M")'
python3 -i f.js <<< 'import os; os.system("touch M")'
perl -e 'system("touch M")'
perl -le 'system("touch M")'
perl -E 'system("touch M")'
perl -ne 'system("touch M")' f
perl <<< 'system("touch M")'
echo 'system("touch M")' | perl
echo 'system("touch M")' | perl -
perl -MPOSIX=system -e 'system("touch M")'
perl '-F/x/,$_);system("touch M");(' -ane 1 f
perl -d -e 1 <<< 'system("touch M")'
perl '-Mvars;system("touch M")' -e1
python3 -c 'import os; os.system("touch M")'
python3 -Bc 'import os; os.system("touch M")'
python3 -W ignore -c 'import os; os.system("touch M")'
echo 'import os; os.system("touch M")' | python3
echo 'import os; os.system("touch M")' | python3 -
python3 <<< 'import os; os.system("touch M")'
python3 - <<END⏎import os⏎os.system("touch M")⏎END
python3 /dev/stdin <<< 'import os; os.system("touch M")'
python3 -m timeit -n1 -r1 'import os; os.system("touch M")'
python3 -m code <<< 'import os; os.system("touch M")'
python3 -m cProfile -m timeit -n1 -r1 'import os; os.system("touch M")'
python3 -m cProfile -o x -m timeit -n1 -r1 'import os; os.system("touch M")'
node -e 'require("child_process").execSync("touch M")'
node -pe 'require("child_process").execSync("touch M")'
node --eval 'require("child_process").execSync("touch M")'
node --eval='require("child_process").execSync("touch M")'
node --print 'require("child_process").execSync("touch M")'
echo 'require("child_process").execSync("touch M")' | node
echo 'require("child_process").execSync("touch M")' | node -
node --import 'data:text/javascript,import{execSync}from"node:child_process";execSync("touch M")' f.js
node --title x -e 'require("child_process").execSync("touch M")'
node --diagnostic-dir . -e 'require("child_process").execSync("touch M")'
node --unhandled-rejections strict -e 'require("child_process").execSync("touch M")'
node --input-type module -e 'import("child_process").then((c) => c.execSync("touch M"))'
node --redirect-warnings w --trace-warnings -e 'require("child_process").execSync("touch M")'
NODE_OPTIONS='--import=data:text/javascript,import%20c%20from%22child_process%22;c.execSync(%22touch%20M%22)' node f.js
npm exec -c 'touch M'
npx -c 'touch M'
npm exec --call='touch M'
npm exec --offline --no -- touch M
gdb -batch -ex 'shell touch M'
ed f <<< '!touch M'
vim -es -c '!touch M' -c q f
dc -e '!touch M'
m4 <<< 'syscmd(touch M)'
busybox touch M
busybox sh -c 'touch M'
`),
  git: lines(String.raw`
git -c rebase.instructionFormat='%s%nexec touch M' -c sequence.editor=: rebase -q --autostash -i HEAD~1
GIT_SEQUENCE_EDITOR="sed -i '1i exec touch M'" git rebase -q --autostash -i HEAD~1
EDITOR="sed -i '1i exec touch M'" git rebase -q --autostash -i HEAD~1
git -c core.editor="sed -i '1i exec touch M'" rebase -q --autostash -i HEAD~1
git config user.fsmonitor 'touch M; false'; git config --rename-section user core; git status
ln -s .git/config user.x; git config -f user.x core.fsmonitor 'touch M; false'; git status
git log -1 --format='[core]%n fsmonitor=touch M\;' --output=.git/config; git status
git log -1 --format='touch M' --output=y.sh; sh y.sh
git -c alias.z='!touch M' z
git -c 'alias.z=!touch M' z
git --config-env=alias.z=ZZ z
git -c core.fsmonitor='touch M; false' status
git -c core.pager='touch M; cat' -p status
git -c pager.log='touch M; cat' -p log
git -c CORE.Pager='touch M; cat' -p log
git -c diff.external='touch M; true' diff
git -c core.editor='touch M; true' commit --amend
git -c sequence.editor='touch M; true' rebase -i HEAD~1
git -c credential.helper='!touch M' credential fill <<< $'protocol=https\nhost=x'
git -c protocol.ext.allow=always ls-remote 'ext::touch M'
git -c core.sshCommand='touch M; false' ls-remote ssh://x/y
git -c uploadpack.packObjectsHook='touch M' ls-remote .
git -c core.hooksPath=. status; touch M
git -C . -c alias.z='!touch M' z
git --git-dir=.git -c alias.z='!touch M' z
git config alias.z '!touch M'; git z
printf '[core]\n\tfsmonitor = touch M\n' >> .git/config; git status
printf '[core]\n\tfsmonitor = touch M\n' | tee -a .git/config; git status
mkdir -p .git/hooks; echo 'touch M' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit -qam x
mkdir -p .git/hooks; cp z.sh .git/hooks/pre-commit; git commit -qam x
mkdir -p .git/hooks; cp z.sh .git/hooks/post-checkout; git checkout -q .
mkdir -p .git/hooks; install -m 755 z.sh .git/hooks/post-commit; git commit -qam x
mkdir -p .git/hooks; ln -s "$PWD/z.sh" .git/hooks/post-commit; git commit -qam x
git bisect view bisect run touch M
git difftool -y -t x
git config --local alias.z '!touch M' && git z
git config set alias.z '!touch M'; git z
git rebase -q --autostash -x 'touch M' HEAD~1
git rebase -q --autostash -x'touch M' HEAD~1
git rebase -q --autostash --exec 'touch M' HEAD~1
git rebase -q --autostash --exec='touch M' HEAD~1
git rebase -q --autostash --exe='touch M' HEAD~1
git stash -q; git bisect start -q HEAD HEAD~1; git bisect run touch M
git stash -q; git bisect start -q HEAD HEAD~1; git bisect run sh -c 'touch M'
git submodule foreach 'touch M'
git submodule foreach --recursive 'touch M'
git submodule --quiet foreach touch M
git ls-remote --upload-pack='touch M; false' .
git ls-remote --upl='touch M; false' .
git ls-remote --exec='touch M; false' .
git ls-remote --upload-pack 'touch M; false' .
git fetch --upload-pack='touch M; false' .
git pull --upload-pack='touch M; false' . HEAD
git clone -u 'touch M; false' . nope-x
git clone --upload-pack='touch M; false' . nope-x
git clone --uplo='touch M; false' . nope-x
git clone -c core.sshCommand='touch M; false' ssh://x/y nope-x
git clone -qc core.sshCommand='touch M; false' ssh://x/y nope-x
git clone --config=core.sshCommand='touch M; false' ssh://x/y nope-x
git push --receive-pack='touch M; false' . HEAD:x
git push --rec='touch M; false' . HEAD:x
git push --exec='touch M; false' . HEAD:x
git grep -O'touch M; true' z
git grep --open-files-in-pager='touch M; true' z
git grep --open='touch M; true' z
git difftool -y -x 'touch M; true' HEAD
git difftool -y -x'touch M; true' HEAD
git difftool --extcmd='touch M; true' -y HEAD
git difftool --ext='touch M; true' -y HEAD
git difftool --no-prompt --extcmd 'touch M; true' HEAD
git filter-branch -f --tree-filter 'touch M' HEAD
git filter-branch -f --index-filter 'touch M' HEAD
git filter-branch -f --msg-filter 'touch M; cat' HEAD
git filter-branch -f --setup 'touch M' HEAD
git filter-branch -f --commit-filter 'touch M; git commit-tree "$@"' HEAD
git merge-index touch M
git archive --remote=. --exec='touch M; false' HEAD
git send-pack --receive-pack='touch M; false' . HEAD:x
git fetch-pack --exec='touch M; false' . HEAD
GIT_EDITOR='touch M; true' git commit --amend
EDITOR='touch M; true' git commit --amend
VISUAL='touch M; true' git commit --amend
export GIT_EDITOR='touch M; true'; git commit --amend
env GIT_EDITOR='touch M; true' git commit --amend
GIT_EXTERNAL_DIFF='touch M; true' git diff HEAD
GIT_SSH_COMMAND='touch M; false' git ls-remote ssh://x/y
GIT_PAGER='touch M; cat' git -p log
PAGER='touch M; cat' git -p log
GIT_SEQUENCE_EDITOR='touch M; true' git rebase -q --autostash -i HEAD~1
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0='!touch M' git z
GIT_CONFIG_PARAMETERS="'alias.z=!touch M'" git z
HOME=$PWD/home git z
XDG_CONFIG_HOME=$PWD/home git z
GIT_CONFIG_GLOBAL=home/.gitconfig git z
declare -x GIT_EDITOR='touch M; true'; git commit --amend
`),
};

/** They start a denied program on some machine, not where a test can run them. */
export const AROUND_ELSEWHERE: readonly string[] = lines(String.raw`
rename 's/.*/system("touch M")/e' f
tree -R -L 1 -H '$(touch M)' .
tree-sitter generate --js-runtime touch
ctags --xcmd-foo='touch M'
git config --comment user.x core.fsmonitor 'touch M'
rsync --daemon --no-detach --config=./r.conf
rsync --daemon --dparam='pre-xfer exec=touch M'
aria2c --conf-path=./x.conf x
hg merge --tool touch
rails runner 'system("touch M")'
bundle exec rails runner 'system("touch M")'
mix run -e 'System.cmd("touch", ["M"])'
php artisan tinker --execute='system("touch M");'
python3 manage.py shell -c 'import os; os.system("touch M")'
git archive HEAD | tar x -C .git/hooks; git commit
git checkout-index --prefix=.git/hooks/ -a; git commit
APT_CONFIG=x apt-get install y
java --source 17 /dev/stdin <<< 'class A{}'
echo 'class A{}' > A.java; java A.java
printf 'x' > y.go; go run y.go
printf 'x' > y.c; gcc y.c; ./a.out
apt-get update -o APT::Update::Pre-Invoke::='touch M'
apt-get install -oDpkg::Post-Invoke::='touch M' x
apt-get download -o Dir::Bin::Methods::https=./x y
rpm --eval '%(touch M)'
pip list --python=touch
pip install --python ./touch x
uv sync --python=touch
go install -toolexec=touch x
go list -export -toolexec 'touch M' std
helm install x y --post-renderer=touch
npm publish --browser=touch
npm view x --userconfig=y
pnpm install --config.script-shell=touch x
gem install x --config-file y
ip -batch x
file-rename 's/x/@{[system("touch M")]}/' f
prename -e 'system("touch M")' f
nm --plugin ./x.so f
ar --plug ./x.so t f
cloc --extract-with='touch M' f
cloc --vcs 'touch M' f
curl --engine ./x.so https://x
aria2c --on-download-complete=touch x
aria2c --on-download-start touch x
cowsay -f ./x.cow hi
exiftool -if 'system("touch M")' f
sox '|touch M' -n
soxi '|touch M'
gawk '-Wsource=BEGIN{system("touch M")}'
gawk -W source='BEGIN{system("touch M")}'
gawk -D 'BEGIN{}' <<< 'eval "system(\"touch M\")"'
mawk -W exec=z.awk
python3 -m poetry run touch M
python3 -m uv run touch M
python3 -m pipx run touch M
python3 -m coverage run -m timeit 'import os; os.system("touch M")'
coverage run -m timeit 'import os; os.system("touch M")'
node inspect -e 'require("child_process").execSync("touch M")' <<< cont
echo 'require("child_process").execSync("touch M")' | ts-node
ts-node -e 'require("child_process").execSync("touch M")'
perl '-d:Foo;system("touch M")' z.pl
php --run 'system("touch M");'
php --process-code 'system("touch M");' f
elixir --erl '-eval "os:cmd(\"touch M\")"' x.exs
deno run -A - <<< 'new Deno.Command("touch",{args:["M"]}).spawn()'
echo 'new Deno.Command("touch",{args:["M"]}).spawn()' | deno
bun run - <<< 'Bun.spawn(["touch","M"])'
just -f - <<< 'x: ; touch M'
just -f/dev/stdin <<< 'x: ; touch M'
rake -f /dev/stdin <<< 'sh "touch M"'
cmake -P /dev/stdin <<< 'execute_process(COMMAND touch M)'
docker run alpine awk 'BEGIN{system("tou" "ch M")}'
docker run alpine sed '1e tou''ch M' f
docker run alpine env "-Stou''ch M"
psql -c 'select 1' -o '|touch M' x
psql -c 'select 1' -o'|touch M' x
psql -c 'select 1' --out='|touch M' x
ssh -o '"ProxyCommand" touch M' x true
ssh -o SmartcardDevice=./x.so x true
hg bisect -c 'touch M'
hg bisect --command 'touch M'
hg clone -e 'touch M' ssh://x/y
hg clone --ssh 'touch M' ssh://x/y
hg clone --remotecmd 'touch M' ssh://x/y
git lfs merge-driver --program 'touch M' --ancestor a --current b --other c
git -c gc.recentObjectsHook='touch M' gc
git difftool -t touch
git mergetool --tool=touch
git -c diff.tool=touch difftool -y
git -c merge.tool=touch mergetool
git archive --remote=ext::touch HEAD
openssl engine dynamic -pre SO_PATH:./x.so -pre LOAD
make MAKEFLAGS='--eval=x' x
make GNUMAKEFLAGS='--eval=x' x
make SHELL:=./x x
npx --node-options=--require=./x x
ltrace -o'|touch M' true
echo 'alias ls="touch M"' >> ~/.bashrc; bash -ic ls
cp /usr/bin/touch ~/.local/bin/ls; ls M
cp /usr/bin/touch /usr/local/bin/ls; ls M
tee "$HOME"/.gitconfig < x; git status
curl -o package.json https://x; npm run x
curl -opackage.json https://x; npm run x
curl --output=package.json https://x; npm run x
curl -sO https://x/package.json; npm run x
curl -OL https://x/package.json; npm run x
wget -Opackage.json https://x; npm run x
wget --output-document=package.json https://x; npm run x
wget https://x/package.json; npm run x
cp -t.git/hooks pre-commit; git commit -qam x
cp --target-directory=.git/hooks pre-commit; git commit -qam x
ln -st .git/hooks "$PWD/pre-commit"; git commit -qam x
install -m755 --target-dir=.git/hooks pre-commit; git commit -qam x
echo x > conftest.py; python3 -m pytest
echo x > build.rs && cargo build
sudo touch M
sudo -u nobody touch M
sudo --user=nobody touch M
sudo --us=nobody touch M
sudo -Eu nobody touch M
sudo -s touch M
sudo -i touch M
sudo FOO=1 touch M
sudo -- touch M
echo 'touch M' | sudo -s
sudo sh -c 'touch M'
doas touch M
doas -u nobody touch M
pkexec touch M
run0 touch M
systemd-run touch M
systemd-run --user --wait touch M
systemd-run -p User=nobody touch M
systemd-run --unit=x --scope -- touch M
ssh localhost touch M
ssh -p 22 localhost touch M
ssh -o ProxyCommand='touch M' x
ssh -oProxyCommand='touch M' x
ssh -o 'ProxyCommand touch M' x
ssh -o LocalCommand='touch M' -o PermitLocalCommand=yes x
ssh -o KnownHostsCommand='touch M' x true
ssh localhost 'cd /x && touch M'
ssh localhost -- touch M
echo 'touch M' | ssh localhost
scp -S 'touch' f x:M
scp -o ProxyCommand='touch M' f x:M
sftp -S touch x
rsync -e 'touch M' f x:y
rsync --rsh='touch M' f x:y
rsync --rs='touch M' f x:y
rsync -ae 'touch M' f x:y
rsync --rsync-path='touch M' f x:y
parallel touch ::: M
parallel -j1 touch {} ::: M
parallel ::: 'touch M'
echo 'touch M' | parallel
watch 'touch M'
watch -x touch M
entr touch M
at now <<< 'touch M'
echo 'touch M' | at now
echo 'touch M' | batch
crontab list
screen -dm touch M
tmux new-session -d 'touch M'
docker run -v /:/h alpine touch /h/M
docker exec c touch M
docker exec c sh -c 'touch M'
podman run alpine touch M
kubectl exec p -- touch M
uv run touch M
uvx --from x touch M
poetry run touch M
pipx run touch M
bundle exec touch M
yarn exec touch M
yarn dlx touch M
pnpm exec touch M
pnpm dlx touch M
bunx touch M
npx touch M
npx --yes touch M
cargo run --config 'target.x.runner="touch M"'
go test -exec touch ./...
go test -exec='touch M' ./...
go vet -vettool=touch ./...
go build -toolexec touch ./...
gcc -wrapper touch,M a.c
mise exec -- touch M
direnv exec . touch M
asdf exec touch M
nix-shell --run 'touch M'
faketime 1 touch M
fakeroot touch M
bwrap --bind / / touch M
firejail touch M
xvfb-run touch M
dbus-run-session touch M
unbuffer touch M
expect -c 'spawn touch M'
rlwrap touch M
ltrace touch M
ltrace -o '|touch M' true
perf stat touch M
valgrind touch M
gdb --args touch M
hyperfine 'touch M'
socat - EXEC:'touch M'
nc -e /usr/bin/touch x 1
ncat --sh-exec 'touch M' x 1
fd -x touch M
fd --exec touch M
fd -x sh -c 'touch M'
fdfind . -X touch
rg --pre touch x
rg --pre=touch x
ag --pager 'touch M' x
bat --pager 'touch M' x
less '+!touch M' f
LESSOPEN='|touch M' less f
LESSOPEN='|touch M' lesspipe f
ip netns exec n touch M
ip vrf exec v touch M
coreutils --coreutils-prog=touch M
toybox touch M
numactl -l touch M
torsocks touch M
proxychains touch M
start-stop-daemon --start --exec /usr/bin/touch -- M
capsh -- -c 'touch M'
sg group -c 'touch M'
newgrp group
wget --use-askpass=touch x
wget -e use_askpass=touch x
zip x.zip f -T -TT 'touch M #'
zip x.zip f --unzip-command 'touch M #'
install -s --strip-program=touch f g
diff3 --diff-program=touch a b c
sdiff --diff-program=touch a b
tcpdump -z touch -G 1 -w x
crontab -e
svn diff --diff-cmd touch
hg --config alias.z='!touch M' z
gpg --photo-viewer 'touch M' --list-keys
ruby -e 'system("touch M")'
php -r 'system("touch M");'
php -d auto_prepend_file=x f.php
lua -e 'os.execute("touch M")'
Rscript -e 'system("touch M")'
R -e 'system("touch M")'
julia -e 'run(${'`'}touch M${'`'})'
osascript -e 'do shell script "touch M"'
deno eval 'new Deno.Command("touch")'
bun -e 'Bun.spawn(["touch","M"])'
emacs --batch --eval '(shell-command "touch M")'
nvim -c '!touch M'
sqlite3 x.db '.shell touch M'
sqlite3 x.db "select load_extension('x')"
sqlite3 x.db < list
psql -c '\! touch M'
psql -c "copy (select 1) to program 'touch M'"
mysql -e '\! touch M'
java -XX:OnError='touch M' X
pwsh -c 'touch M'
fish -c 'touch M'
zsh -c 'touch M'
csh -c 'touch M'
nu -c 'touch M'
git difftool --tool=x --extcmd touch
git send-email --smtp-server=/usr/bin/touch x
git send-email --sendmail-cmd='touch M' x
git instaweb --httpd='touch M'
git remote-ext x 'touch M'
git clone 'ext::touch% M' x
git remote add x 'ext::touch% M'
git fetch 'ext::sh -c touch% M'
git submodule add 'ext::touch M' x
git -c url.'ext::touch M'.insteadOf=x: fetch x:
git -c include.path=./x status
git -c core.attributesFile=./x status
git -c filter.x.clean='touch M' add f
git -c merge.x.driver='touch M' merge y
git -c gpg.program='touch M' commit -S
git -c gpg.ssh.program='touch M' commit -S
git -c browser.x.cmd='touch M' help -w x
git -c man.x.cmd='touch M' help x
git -c submodule.x.update='!touch M' submodule update
git -c remote.x.uploadpack='touch M' fetch x
git -c trailer.x.cmd='touch M' interpret-trailers f
git -c interactive.diffFilter='touch M' add -p
git clone --template=./x y z
git init --template=./x
git --exec-path=. z
git unknown-alias
git config --edit
git config core.pager 'touch M'
git config --add core.fsmonitor 'touch M'
LD_PRELOAD=./x.so ls
LD_LIBRARY_PATH=. ls
env LD_PRELOAD=./x.so ls
export LD_AUDIT=./x.so; ls
PATH=.:$PATH ls
export PATH=./evil:$PATH; ls
PYTHONSTARTUP=x.py python3 x.py
PERL5OPT=-Mx perl x.pl
RUBYOPT=-rx ruby x.rb
NODE_OPTIONS='--require ./x.js' npm test
GIT_TRACE=./x git status
BROWSER='touch M' xdg-open x
CC='touch M' make
RUSTC_WRAPPER=touch cargo build
RSYNC_RSH='touch M' rsync f x:y
npm_config_script_shell=./x npm test
npm test --script-shell='touch M'
FOO='touch M' tool-of-its-own
mystery-program touch M
mystery-program
./mystery touch M; cp /usr/bin/touch mystery
bind -x '"x":touch M'
enable -f ./x.so x
$SHELL -c 'touch M'
$EDITOR f
~/bin/x M
`);

/** Each is everyday work; a rule that denies `touch`, `rm -r` or `git push --force` must not be about it. */
export const EVERYDAY: readonly string[] = lines(String.raw`
ls
ls -la src
ls *.ts
ls "$DIR"
pwd
cat a b
cat "$FILE"
cat <<'END' > notes⏎text⏎END
echo hello > out.txt
echo "$HOME" done
printf '%s\n' a b c
head -n 20 f
tail -f -n 5 log
wc -l *.ts
grep -rn 'touched' src
grep -r "$WORD" src
rg -n 'x y' src
rg --files -g '*.ts'
find . -name '*.ts'
find . -type f -newer f -print
find . -name '*.o' -delete
find src -name '*.ts' -exec grep -l x {} +
find src -name '*.ts' | xargs grep -l x
find src -name '*.ts' -print0 | xargs -0 wc -l
git ls-files | xargs -n 10 wc -l
sort f | uniq -c | sort -rn | head
sort -k2 -t, f
cut -d: -f1 f
tr a-z A-Z < f
comm -12 a b
diff -u a b
cmp a b
stat f
file f
du -sh .
df -h
ps aux
date +%s
uname -a
which node
whoami
id -u
env
printenv PATH
mkdir -p a/b
cp -r a b
mv a b
rm f
ln -s a b
chmod +x build.sh
chmod +x build.sh && ./build.sh
./build.sh --fast
./gradlew build
./node_modules/.bin/tsc --noEmit
node_modules/.bin/eslint src
sh build.sh
bash build.sh "$ARG"
bash -e build.sh
sh -c 'ls -l'
bash -lc 'npm test'
cd src && ls
cd src; npm test
test -f f && cat f
[ -d src ] || mkdir src
[[ -f f ]] && cat f
if [ -f f ]; then cat f; fi
for f in *.ts; do wc -l "$f"; done
for i in 1 2 3; do echo $i; done
while read -r line; do echo "$line"; done < f
case "$X" in a) echo a;; *) echo b;; esac
X=1; echo $X
X=$(cat f); echo "$X"
f() { echo "$1"; }; f a
export NODE_ENV=test; npm test
set -euo pipefail; npm test
true && false || true
sleep 1
wait
time npm test
timeout 60 npm test
timeout -k 5 60 npm test
nice -n 10 make
nohup npm start &
env NODE_ENV=test npm test
env -u DEBUG npm test
NODE_ENV=test npm test
CI=1 npm test
DEBUG=1 FOO=bar npm run build
NO_COLOR=1 npx tsc
NODE_OPTIONS=--max-old-space-size=4096 npm run build
NODE_OPTIONS="--max-old-space-size=4096 --no-warnings" npm test
PYTHONPATH=src python3 -m pytest
PATH=$PATH:node_modules/.bin tsc
export PATH="$HOME/.cargo/bin:$PATH"; cargo build
LC_ALL=C sort f
TZ=UTC date
GIT_PAGER=cat git log
PAGER=cat git log
EDITOR=true git commit --amend
GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash HEAD~3
GIT_SEQUENCE_EDITOR="sed -i '1s/^pick/reword/'" git rebase -i HEAD~2
npm install --global x
pnpm --config.strict-ssl=false install
uv venv --python 3.12
pip --python .venv install x
apt-get install -y -o Dpkg::Options::=--force-confold x
go test ./...
go install ./cmd/x
make -f build.mk
java -jar app.jar
node -r dotenv/config server.js
git config user.name x
git config --global core.autocrlf input
git log --output=log.txt
parallel gzip ::: a b
parallel 'gzip {}' ::: a b
python3 app.py /dev/null
GIT_AUTHOR_NAME=x git commit -m y
RUST_BACKTRACE=1 cargo test
CFLAGS=-O2 make
MAKEFLAGS=-j4 make
GOOS=linux go build ./...
git status
git status --short
git log --oneline -5
git log -p -- src
git log --format='%h %s' --since=yesterday
git diff
git diff --stat HEAD~1
git diff --cached -- a b
git show HEAD:f
git add -A
git add src/a.ts
git add *.ts
git commit -m 'a message; with touch in it'
git commit -qam "x"
git commit --amend --no-edit
git commit -m "$(cat msg)"
git push
git push origin main
git push -u origin HEAD
git pull --rebase
git fetch --all --prune
git fetch origin main
git clone https://example.org/x.git
git clone --depth 1 -b main https://example.org/x.git y
git checkout -b feature
git checkout -- f
git switch main
git restore f
git branch -a
git merge main
git rebase main
git rebase -i HEAD~3
git rebase --continue
git stash
git stash pop
git tag v1
git remote -v
git remote add origin https://example.org/x.git
git rev-parse HEAD
git ls-files
git blame f
git grep -n x
git worktree add ../x
git submodule update --init
git config user.name 'A B'
git config --get remote.origin.url
git config --list
git config --global init.defaultBranch main
git -C sub status
git --no-pager log
git -c user.name=x -c user.email=y commit -m z
git -c color.ui=never diff
git -c core.quotepath=off status
git -c advice.detachedHead=false checkout HEAD~1
git -c commit.gpgsign=false commit -m x
git reset --hard HEAD
git clean -fd
git cherry-pick abc
git bisect start
git bisect good
git archive --format=tar HEAD
git apply x.patch
git format-patch -1
npm test
npm test -- --watch=false
npm test "$X"
npm run build
npm run lint -- --fix
npm ci
npm install
npm install lodash
npm i -D typescript
npm run test:unit -- src/a.test.ts
npm ls
npm view x version
npm pack --dry-run
npx tsc --noEmit
npx eslint src -c eslint.config.js
npx vitest run
npx --yes prettier --check .
pnpm install
pnpm test
pnpm -r build
pnpm --filter x test
yarn
yarn install
yarn test
yarn build
bun test
bun install
deno test
node index.js
node script.mjs --flag value
node --test
node --test test/a.test.ts
node --experimental-strip-types a.ts
node --check a.js
node -v
node --version
tsc -p .
eslint . --ext .ts
prettier --write src
biome check src
jest --ci
vitest run
make
make test
make -j4 all
make -C sub
make CC=clang DEBUG=1
make V=1 "PREFIX=/usr"
make -f build.mk x
cmake -S . -B build
cmake --build build
ninja -C build
cargo build --release
cargo test
cargo test -- --nocapture
cargo run
cargo run -- --help
cargo clippy -- -D warnings
cargo fmt
go build ./...
go test ./...
go test -run TestX ./pkg
go run main.go
go vet ./...
go mod tidy
gofmt -l .
rustc a.rs
gcc -O2 -o a a.c
g++ -std=c++20 a.cc
mvn -q test
gradle build
dotnet build
python script.py
python3 script.py --x y
python3 -u script.py "$ARG"
python3 -m pytest -q
python3 -m pytest tests/test_a.py -k x
python3 -m venv .venv
python3 -m pip install -r requirements.txt
python3 -m http.server
python3 -m json.tool f
python3 --version
pip install requests
pip3 install -e .
pip list
pytest
pytest -q tests
pytest -k 'a and not b'
uv sync
uv pip install x
uv run pytest
poetry install
poetry run pytest
ruff check .
mypy src
black .
tox
ruby script.rb
bundle install
bundle exec rspec
rake test
php artisan migrate
php script.php
composer install
perl script.pl
java -jar x.jar
javac A.java
lua script.lua
Rscript script.R
sed -n '1,20p' f
sed 's/a/b/g' f
sed -i 's/a/b/' f
sed -i.bak -e 's/a/b/' -e '/x/d' f
sed -E 's/(a|b)+/\1/g' f
sed 's|/usr|/opt|' f
sed '/^#/d;/^$/d' f
sed -n '/start/,/end/p' f
sed '$d' f
sed '2i\⏎text' f
sed 's/touch M/e/' f
sed "s/x/y/" f
sed -n '$=' f
sed 's/[^a-z]//g' f
sed 'y/abc/xyz/' f
sed '1~2d' f
sed -f script.sed f
awk '{print $1}' f
awk -F: '{print $1}' /etc/passwd
awk -F'|' '{print $2}' f
awk '{s+=$1} END {print s}' f
awk 'NR==1 || /x|y/ {print}' f
awk '$3 > 10 && $4 ~ /a\/b/ {n++} END {print n/NR}' f
awk '{gsub(/"/, "\\\""); print}' f
awk -v n=3 'NR<=n' f
awk 'BEGIN{OFS=","} {print $1,$2}' f
awk '{ print > "out.txt" }' f
awk '/a/ { print "b | c" }' f
awk -f script.awk f
jq . f.json
jq -r '.a | .b' f.json
jq --arg x y '.[$x]' f.json
yq .a f.yaml
xargs -a list wc -l
tar xf x.tar
tar xzf x.tgz
tar -xzf x.tgz -C out
tar czf x.tgz src
tar -cf - src | gzip > x.tgz
tar tf x.tar
tar --exclude=node_modules -czf x.tgz .
tar xf x.tar --strip-components=1
unzip -q x.zip
zip -r x.zip src
gzip f
gunzip f.gz
zcat f.gz | head
xz -d f.xz
split -l 100 f
tee out.txt < f
dd if=/dev/zero of=f bs=1M count=1
curl -s https://example.org
curl -fsSL -o x https://example.org/x
curl -X POST -d '{"a":1}' -H 'content-type: application/json' http://127.0.0.1:1
wget -q https://example.org/x
ssh -V
rsync -av a/ b/
docker ps
docker build -t x .
docker compose up -d
docker logs x
docker images
kubectl get pods
kubectl logs p
gh pr list
gh pr view 1 --json title
gh pr create --title 'x' --body 'y'
gh issue list
gh run view
aws s3 ls
terraform plan
apt-get update
apt-get install -y python3
brew install x
man ls
less f
openssl version
openssl enc -e -aes-256-cbc -in f
openssl rand -hex 8
ssh-keygen -t ed25519 -f k -N ''
shellcheck build.sh
sqlite3 x.db 'select 1'
psql -c 'select 1' x
lsof -i :80
kill 123
kill -9 $PID
pkill node
pgrep -f x
ping -c1 127.0.0.1
dig x
seq 1 10
basename "$F" .ts
dirname f
realpath f
md5sum f
sha256sum f
base64 f
xxd f | head
nl f
column -t f
paste a b
expr 1 + 2
bc <<< '1+2'
tput cols
clear
history
type ls
command -v node
hash -r
ulimit -n
umask
trap - EXIT
shopt -s globstar
alias
echo $((1 + 2))
(( n++ ))
i=0; while (( i < 3 )); do echo $i; i=$((i+1)); done
let n=1+2
read -r x < f
mapfile -t a < f
local_var=1
declare -a xs=(1 2 3)
unset X
exit 0
flock f npm test
setsid npm start
stdbuf -oL npm test
strace -f -o out.txt ls
rename .txt .md a.txt b.txt
rename 's/a/b/g' a.txt
node --enable-source-maps f.js "$ARG"
node --experimental-strip-types a.ts --x y
ts-node a.ts
python3 -m coverage run -m pytest
python3 -m cProfile -o out x.py
coverage report
awk 'BEGIN { print 4 / 2, 6 / 3 }'
awk '{ if ($1 / $2 > 3) print $1 / $2 }' f
awk '{ print ($1 + $2) / 2 " /x/ " }' f
awk --version
sed ':a;N;$!ba;s/\n/ /g' f
sed 's/x/y/;ta;s/a/b/;:a' f
psql -At -c 'select 1' -o out.txt x
nm -C a.out
ar rcs x.a a.o
aria2c -o x https://example.org
make MAKEFLAGS=-j4 all
cmake -P x.cmake
deno run -A x.ts
hg log
git bisect view --stat
git lfs track '*.bin'
sox a.wav b.wav
docker run alpine awk '{print $1}' f
kubectl apply -f - < x.yaml
cat > Makefile <<'END' && git add Makefile⏎x:⏎END
cat package.json; npm test
sed -n 1p package.json && npm test
cp package.json /tmp/x.json; npm test
echo x > src/a.ts; npx tsc --noEmit
npm test > log.txt
echo node_modules > .gitignore; git add -A
cp -r a/ b/; npm test
curl -so x.json https://example.org/package.json; npm test
cp -t /tmp a.txt; npm test
`);
