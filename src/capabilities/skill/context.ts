/**
 * The model context of a skill without code: its instructions and the texts of its files, as far as they fit, and the list of
 * the omitted files. Pure.
 */
import { textOf } from './folder/files.ts';
import type { LoadedSkill } from './folder/library.ts';
import type { SkillContext, SkillLeftOut } from './skill.schema.ts';

/** Returns the context. The files that the instructions name come first, then the others by their path. */
export function contextOf(
  { skill, files }: LoadedSkill,
  maxChars: number,
): { readonly data: SkillContext; readonly leftOut: readonly SkillLeftOut[] } {
  const instructions = skill.instructions.slice(0, maxChars);
  let room = maxChars - instructions.length;
  const leftOut: SkillLeftOut[] = [];
  if (instructions.length < skill.instructions.length) {
    leftOut.push({ path: 'SKILL.md', bytes: (files.get('SKILL.md') as Buffer).length, reason: 'size' });
  }
  const resources: SkillContext['resources'] = [];
  const isNamed = (path: string): boolean => skill.instructions.includes(path);
  const others = skill.manifest.filter(({ path }) => path !== 'SKILL.md');
  for (const { path, bytes } of [
    ...others.filter((each) => isNamed(each.path)),
    ...others.filter((each) => !isNamed(each.path)),
  ]) {
    const text = textOf(files.get(path) as Buffer);
    if (text !== undefined && text.length <= room) {
      resources.push({ path, text });
      room -= text.length;
    } else leftOut.push({ path, bytes, reason: text === undefined ? 'binary' : 'size' });
  }
  return { data: { instructions, resources }, leftOut };
}
