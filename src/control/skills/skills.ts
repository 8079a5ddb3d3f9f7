/**
 * Skills: texts on disk that a prompt calls with `$name`. Lists them for clients and finds those a prompt names.
 *
 * @see docs/protocol/session-rpc.md#skills
 */

import { folded } from '../../base/fold-text.ts';
import {
  type FoundSkill,
  type SkillPlaces,
  type SkillScan,
  type SkillTrust,
  scanSkills,
  skillRoots,
} from '../../base/skills/scan.ts';
import { bodyOf, previewOf, skillNamesIn } from '../../base/skills/text.ts';
import { skillsList } from '../../protocol/session-rpc.ts';
import { type Handled, handles } from '../contract/handlers.ts';

/** A skill that a prompt named. */
export interface NamedSkill {
  readonly name: string;
  /** The text for the model. */
  readonly body: string;
  readonly sourcePath: string;
}

export class Skills {
  readonly #places: SkillPlaces;
  readonly #trust: SkillTrust;
  #summary: { readonly count: number; readonly directories: readonly string[] } = { count: 0, directories: [] };

  /**
   * @param places `cwd` is the server's own working directory; sessions name theirs
   * @param trust asked at every scan about skills that came with a folder
   */
  constructor(places: SkillPlaces, trust: SkillTrust) {
    this.#places = places;
    this.#trust = trust;
  }

  /** Result of the newest scan of the server's own directories, for snapshots, which cannot wait for the disk. */
  get summary(): { readonly count: number; readonly directories: readonly string[] } {
    return this.#summary;
  }

  /** Scans the disk again. Never rejects. */
  async scan(cwd: string = this.#places.cwd): Promise<SkillScan & { readonly directories: readonly string[] }> {
    const roots = await skillRoots({ ...this.#places, cwd });
    const directories = roots.map(({ path }) => path);
    const found = await scanSkills(roots, this.#trust);
    if (cwd === this.#places.cwd) this.#summary = { count: found.skills.length, directories };
    return { ...found, directories };
  }

  /**
   * Returns the skills a prompt names, in the order it names them. A name without a skill, or with several, is ignored.
   * @param cwd the session's working directory
   */
  async skillsFor(prompt: string, cwd: string): Promise<readonly NamedSkill[]> {
    const names = skillNamesIn(prompt);
    if (names.length === 0) return [];
    const byName = new Map<string, FoundSkill[]>();
    for (const skill of (await this.scan(cwd)).skills) {
      const name = folded(skill.name);
      byName.set(name, [...(byName.get(name) ?? []), skill]);
    }
    return names.flatMap((name) => {
      const [skill, another] = byName.get(name) ?? [];
      if (skill === undefined || another !== undefined) return [];
      return [{ name: skill.name, body: bodyOf(skill.text), sourcePath: skill.sourcePath }];
    });
  }

  /** `skills.list`. */
  handlers(): Handled[] {
    return [
      handles(skillsList, async () => {
        const { directories, errors, skills } = await this.scan();
        return {
          directories,
          errors,
          skills: skills.map(({ name, description, sourcePath }) => ({
            name,
            description,
            description_preview: previewOf(description),
            source_path: sourcePath,
          })),
        };
      }),
    ];
  }
}

/** Returns the instructions for a model, of the skills a prompt names; `''` for none. */
export function skillInstructions(skills: readonly NamedSkill[]): string {
  return skills.map(({ name, body }) => `# Skill: ${name}\n\n${body}`).join('\n\n');
}
