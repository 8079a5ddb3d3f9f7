/**
 * Files that programs read as code or settings by their own choice: a line that writes one and starts its program may start
 * anything. From the manuals of the programs. Data.
 */
import { likelyValue, type RunningOptions, runningOptions, wordFor } from './options.ts';
import type { Word } from './shell-syntax.ts';

/** The last parts of the paths, and the programs that read these files. */
const READ_BY: readonly (readonly [files: RegExp, programs: RegExp])[] = [
  [/(?:^|\/)(?:GNUm|[Mm])akefile$|\.mk$/, /make$/],
  [
    /(?:^|\/)(?:\.git\/.*|\.gitconfig|\.gitmodules|git\/attributes|config(?:\.worktree)?)$|(?:^|\/)hooks\/[\w-]+$/,
    /^git/,
  ],
  [
    /(?:^|\/)(?:package\.json|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.c?js|bunfig\.toml|deno\.jsonc?)$/,
    /^(?:np[mx]|pnp[mx]|yarn|bunx?|deno|node)$/,
  ],
  [
    /(?:^|\/)(?:setup\.(?:py|cfg)|conftest\.py|pyproject\.toml|tox\.ini|noxfile\.py|sitecustomize\.py|usercustomize\.py|[\w-]+\.pth)$/,
    /^(?:python|pip|pytest|tox|nox|uv|poetry|pdm|hatch|coverage|pre-commit|mypy|pylint)[\d.]*$/,
  ],
  [/(?:^|\/)(?:build\.rs|Cargo\.toml|\.cargo\/config(?:\.toml)?)$/, /^(?:cargo|rustc|rustup)$/],
  [/(?:^|\/)(?:CMakeLists\.txt|CMakePresets\.json)$|\.cmake$/, /^(?:cmake|ctest|cpack)$/],
  [
    /(?:^|\/)(?:build\.ninja|justfile|\.justfile|[Tt]askfile\.ya?ml|Rakefile|Gemfile|build\.gradle(?:\.kts)?|settings\.gradle(?:\.kts)?|pom\.xml|build\.xml|SConstruct|build\.sbt|mix\.exs|composer\.json|meson\.build|BUILD(?:\.bazel)?|WORKSPACE|Vagrantfile|Fastfile)$/i,
    /^(?:ninja|just|task|rake|bundle|gradlew?|mvnw?|ant|scons|sbt|mix|composer|meson|bazel(?:isk)?|vagrant|fastlane|ruby)$/,
  ],
  [
    /(?:^|\/)(?:\.\w+rc(?:\.\w+)?|[\w.-]+\.config\.[cm]?[jt]s|\.pre-commit-config\.ya?ml|\.lintstagedrc.*|biome\.jsonc?|angular\.json|nx\.json|turbo\.json)$/,
    /^(?:np[mx]|pnp[mx]|yarn|bunx?|node|eslint|prettier|stylelint|jest|vitest|vite|webpack|rollup|rolldown|babel|mocha|nyc|c8|ava|parcel|postcss|tailwind|next|nuxt|astro|playwright|cypress|commitlint|lint-staged|husky|pre-commit|nx|turbo|ng)$/,
  ],
  [
    /(?:^|\/)(?:\.(?:bash|zsh|k?sh|z|mk)(?:rc|env|_?profile|_login|_logout|login|logout)|\.profile|config\.fish)$/,
    /^(?:[a-z]*sh|su|runuser|sudo|login|script|screen|tmux)$/,
  ],
  [/(?:^|\/)\.ssh\/[\w.-]+$/, /^(?:ssh|scp|sftp|rsync|git|mosh|ansible[\w-]*)$/],
  [
    /(?:^|\/)\.(?:gdbinit|lldbinit|vimrc|exrc|nanorc|emacs|Rprofile|psqlrc|sqliterc|inputrc|screenrc|tmux\.conf|lesskey|curlrc|wgetrc|irbrc|pryrc|perldb|ackrc|envrc|tool-versions|mise\.toml)$/,
    /./,
  ],
];

/** Folders in which programs are found by their names. */
const PROGRAM_FOLDER = /(?:^|\/)s?bin\/[^/]+$/;

/**
 * True when a program that the line starts may read one of these files, or be one.
 * @param files that the line writes, as they stand in it
 * @param programs by their names
 */
export function readsWritten(files: readonly string[], programs: readonly string[]): boolean {
  return files.some((file) => {
    if (PROGRAM_FOLDER.test(file) && programs.includes(lastPart(file).toLowerCase())) return true;
    return READ_BY.some(([names, readers]) => names.test(file) && programs.some((program) => readers.test(program)));
  });
}

/** Programs that make their last operand, or files in that folder. */
const COPIES: ReadonlySet<string> = new Set(['cp', 'ln', 'mv', 'install', 'rsync', 'link', 'rename', 'gcp', 'gmv']);
const FOLDER = /(?:^|\/)(?:\.{1,2}|hooks|s?bin)?\/?$|\/$/;
/** Their option for a folder; this letter has no value as an option of `rsync`. */
const INTO: RunningOptions = { scripts: '-t --target-directory', stops: 'gmoS' };
/** Options of `curl`, `wget` and `git` for the file that they write, or its folder. */
const OUTPUT: RunningOptions = { scripts: '-o -O --output --output-document --output-directory' };
/** `curl` writes a file with the last part of the address. */
const REMOTE_NAME = /^(?:-\w*O|--remote-name)/;

const lastPart = (path: string): string => path.replace(/^.*\//s, '');

/** A folder from which git starts programs. */
const HOOKS = /(?:^|\/)\.git\/hooks\/?$/;

/** Returns the files that a command makes or changes, as far as its words tell. */
export function madeBy(program: string, words: readonly Word[]): string[] {
  const values = words.map(likelyValue);
  const operands = values.filter((value) => !value.startsWith('-'));
  if (COPIES.has(program)) {
    const last = operands.at(-1) ?? '';
    const given = program === 'rsync' ? [] : valuesOf(INTO, values);
    if (given.length === 0 && !FOLDER.test(last)) return [last];
    const folders = given.length === 0 ? [last] : given;
    return folders.flatMap((folder) => [folder, ...operands.map((source) => `${folder}/${lastPart(source)}`)]);
  }
  if (program === 'tee' || program === 'sponge') return operands;
  if (program === 'dd') return operands.flatMap((value) => /^of=(.*)$/s.exec(value)?.[1] ?? []);
  if (/^g?sed$/.test(program)) return values.some((value) => /^(?:-\w*i|--i)/.test(value)) ? operands : [];
  if (/^(?:tar|unzip|cpio|7z|patch|git)$/.test(program)) {
    const folders = values.map((value) => value.replace(/^--[\w-]+=/, '')).filter((value) => HOOKS.test(value));
    if (folders.length > 0) return folders.map((folder) => `${folder}/x`);
  }
  if (program === 'curl' || program === 'wget' || program === 'git') {
    const isNamed = program === 'wget' || (program === 'curl' && values.some((value) => REMOTE_NAME.test(value)));
    return [...valuesOf(OUTPUT, values), ...(isNamed ? operands : [])];
  }
  return [];
}

const valuesOf = (options: RunningOptions, values: readonly string[]): readonly string[] =>
  runningOptions(values.map(wordFor), options).scripts;
