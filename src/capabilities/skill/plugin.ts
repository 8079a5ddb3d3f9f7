/**
 * The skill capability of a host: lists, describes and runs skills out of trusted folders.
 *
 * Host builders call `skillPlugin()`. Code of skills runs in the sandbox that the configuration names, and not at all if that
 * does not work.
 * @see docs/skill.md
 */
import { homedir } from 'node:os';
import { isInside } from '../../base/is-inside.ts';
import { suggest } from '../../base/suggest.ts';
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin } from '../../host/plugin.ts';
import { grantOf, may } from '../../session/rights.ts';
import type { HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import { compareVersions, Library, type Skill, type TrustedRoot } from './folder/library.ts';
import * as messages from './messages.ts';
import { skillOffer } from './offer.ts';
import { skillRoots } from './roots.ts';
import { mayUse, Runs } from './runs.ts';
import { sandboxOf } from './sandbox/choose.ts';
import type { Sandbox, Tier } from './sandbox/sandbox.ts';
import type { SkillDefinition } from './skill.schema.ts';

export interface SkillPluginOptions {
  /** Absolute paths. Default: `skills` of the user's Handfast folder, and `~/.agents/skills`. */
  readonly roots?: readonly string[] | undefined;
  /** Skills that run only with these files: digests by name. */
  readonly pins?: Readonly<Record<string, string>> | undefined;
  /** The sandbox for the code of skills; if it does not work, no code runs. Default `quickjs`. */
  readonly tier?: Tier | undefined;
  /**
   * Of the tier `bubblewrap`: `workspace` lets every skill read the workspace, even one that names no tool for it. Default
   * `none`.
   */
  readonly view?: 'none' | 'workspace' | undefined;
  /** Memory of a run. Default 64 MiB. */
  readonly memoryBytes?: number | undefined;
  /** Longest run. Default 300. */
  readonly maxSeconds?: number | undefined;
  /** Characters of a result, or of any other message of a skill. Default 1 Mi. */
  readonly maxResultChars?: number | undefined;
  /** Characters that a run may print. Default 64 Ki. */
  readonly maxPrintedChars?: number | undefined;
  /** Characters of the context that a skill without code returns. Default 64 Ki. */
  readonly maxContextChars?: number | undefined;
  /** Calls of tools of one run. Default 1,000. */
  readonly maxCalls?: number | undefined;
  /** Events of one run. Default 10,000. */
  readonly maxEvents?: number | undefined;
  /** Concurrent runs of one principal. Default 8. */
  readonly maxRuns?: number | undefined;
  /** Number of sandboxes that wait for a skill. Default 1. */
  readonly warm?: number | undefined;
  /** Maximum age of a scan that serves a list, milliseconds. Default 1,000. */
  readonly freshMs?: number;
  /** Runs the code of skills, instead of QuickJS. */
  readonly sandbox?: Sandbox;
  /** Environment variables of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const KI = 1024;
const MI = KI * KI;

export function skillPlugin(options: SkillPluginOptions = {}): Plugin {
  const { env = process.env, pins = {}, maxResultChars = MI, tier = 'quickjs', view = 'none' } = options;
  const limits = {
    maxSeconds: options.maxSeconds ?? 300,
    maxResultChars,
    maxPrintedChars: options.maxPrintedChars ?? 64 * KI,
    maxContextChars: options.maxContextChars ?? 64 * KI,
    maxCalls: options.maxCalls ?? 1_000,
    maxEvents: options.maxEvents ?? 10_000,
    maxRuns: options.maxRuns ?? 8,
  };
  let changed: () => void = () => {};
  let roots: readonly TrustedRoot[] = [];
  let library: Library | undefined;
  const sandbox = options.sandbox ?? sandboxOf(options, env);
  const runs = new Runs(sandbox, limits, view === 'workspace', () => changed());
  const books = (): Library => library as Library;

  /** Returns the result of `find`. Hides the existence of skills that the principal may not use. Fails with `unknown_skill`. */
  const permitted = async <Found>(
    name: string,
    context: CallContext,
    find: (books: Library) => Promise<Found | undefined>,
  ): Promise<Found> => {
    const found = mayUse(context.grant, name) ? await find(books()) : undefined;
    if (found !== undefined) return found;
    const { skills } = await books().list();
    const known = [...skills.keys()].filter((each) => mayUse(context.grant, each));
    throw unknownSkill(name.slice(0, 64), known, roots, may(context.session.principal, 'administer'));
  };
  const isPinned = ({ name, digest }: Skill): boolean => !Object.hasOwn(pins, name) || pins[name] === digest;

  return definePlugin({
    name: 'skill',
    type: 'skill',
    ...skillOffer(tier),
    metadata: () => ({ ...(skillOffer(tier).metadata as object), sandbox: factsOf(runs) }),
    start(context) {
      changed = () => context.changed();
      roots = skillRoots(options.roots, context.workspace, env).map((path) => rootOf(path, context.workspace));
      library = new Library(roots, options.freshMs ?? 1_000, () => context.changed());
      // After the handshake: the state of the sandbox is known when the first skill arrives.
      void runs
        .ready()
        .catch((error: Error) => context.log.warn('skills with code do not run', { reason: error.message }));
    },
    stop: () => runs.close(),
    methods: [
      handle(messages.skillDiscover, async ({ filter_tags = [], filter_categories = [] }, context) => {
        const { skills, problems } = await books().list();
        const isAdministrator = may(context.session.principal, 'administer');
        return {
          skills: [...skills.values()]
            .filter(({ name, tags, category }) => {
              if (!mayUse(context.grant, name)) return false;
              if (filter_tags.length > 0 && !filter_tags.some((tag) => tags.includes(tag))) return false;
              return filter_categories.length === 0 || (category !== undefined && filter_categories.includes(category));
            })
            .map((skill) => definitionOf(skill, isPinned(skill))),
          ...(isAdministrator && { problems: [...problems] }),
        };
      }),
      handle(messages.skillDescribe, async ({ name, skill_version = '' }, context) => {
        const all = await permitted(name, context, (all) => all.versions(name, skill_version));
        const [skill] = all;
        const isAdministrator = may(context.session.principal, 'administer');
        return {
          skill: { ...definitionOf(skill, isPinned(skill)), instructions: skill.instructions },
          files: [...skill.manifest],
          versions: all
            .map(({ version }) => version)
            .toSorted(compareVersions)
            .reverse(),
          entry: skill.entry ?? null,
          ...(isAdministrator && { root: skill.root.path }),
        };
      }),
      handle(
        messages.skillCall,
        async ({ name = '', arguments: args = {}, skill_version = '', digest = '' }, context) => {
          const loaded = await permitted(name, context, (all) => all.load(name, skill_version));
          const { skill } = loaded;
          if (!isPinned(skill) || (digest !== '' && digest !== skill.digest)) {
            const by = isPinned(skill) ? 'this request asks for' : 'the configuration pins';
            throw failure('changed', `the files of the skill ${JSON.stringify(name)} are not those that ${by}`, {
              name,
              digest: skill.digest,
            });
          }
          return { name, data: await runs.run(loaded, args, context), error: null, created_at: Date.now() / 1000 };
        },
        undefined,
        ({ name = '' }, { principal }) =>
          mayUse(grantOf(principal, 'skill'), name)
            ? undefined
            : failure('unknown', `this principal may no longer use the skill ${JSON.stringify(name.slice(0, 64))}`),
      ),
    ],
  });
}

/**
 * Returns the error for an unknown skill, with the searched folders and a similar name.
 *
 * @param known skills that the principal may use
 * @param isAdministrator true: the caller may know the folders of the host
 */
function unknownSkill(
  name: string,
  known: readonly string[],
  roots: readonly TrustedRoot[],
  isAdministrator: boolean,
): HandfastError {
  const paths = roots.map(({ path }) => path);
  const where = isAdministrator ? paths.join(', ') : `the skill folders of this host (${paths.length})`;
  const near = suggest(name, known);
  const more = near === undefined ? '' : `; did you mean "${near}"?`;
  return failure('unknown', `there is no skill ${JSON.stringify(name)} in ${where}${more}`, {
    name,
    ...(near !== undefined && { did_you_mean: near }),
    ...(isAdministrator && { roots: paths }),
  });
}

/** Returns the known state of the sandbox; `in_force` null: it was not tried yet. */
function factsOf({ state: { tier, inForce, reason, probe } }: Runs): Record<string, unknown> {
  return { tier, in_force: inForce ?? null, ...(reason !== undefined && { reason }), ...probe };
}

function rootOf(path: string, workspace: string): TrustedRoot {
  return { path, source: isInside(workspace, path) ? 'project' : isInside(homedir(), path) ? 'user' : 'system' };
}

function definitionOf(skill: Skill, isPinned: boolean): SkillDefinition {
  const { name, version, description, triggers, whenToUse, argumentHint, parameters, result, entry, digest } = skill;
  return {
    name,
    version,
    description,
    triggers: [...triggers],
    tools: [...skill.allowedTools],
    toolkits: null,
    status: isPinned ? 'Published' : 'Blocked',
    input_schema: parameters as Record<string, unknown>,
    output_schema: (result ?? {}) as Record<string, unknown>,
    instructions: null,
    file_path: skill.file,
    llm_config: null,
    arguments: Object.keys((parameters.properties ?? {}) as object),
    when_to_use: whenToUse,
    argument_hint: argumentHint,
    source: skill.root.source,
    category: skill.category ?? null,
    tags: [...skill.tags],
    max_turns: null,
    timeout_seconds: skill.timeoutSeconds ?? null,
    icon: null,
    metadata: { ...skill.metadata, digest, runs: entry !== undefined },
  };
}
