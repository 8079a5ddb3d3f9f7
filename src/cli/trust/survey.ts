/**
 * The files of a folder that need trust, and whether this user trusts them as they are now.
 *
 * The content is read to be shown; nothing of it is acted upon.
 */
import { join } from 'node:path';
import { counted } from '../../base/counted.ts';
import { scanSkills, skillRoots } from '../../base/skills/scan.ts';
import {
  agentFilesOf,
  agentFilesTrusted,
  folderIn,
  isTrustedRepository,
  isTrustedSkill,
  placedSkill,
  trustedFile,
} from '../../trust/check.ts';
import { ABSENT, digestOf } from '../../trust/covered-files.ts';
import { findFile } from '../../trust/found-file.ts';
import { manifestOf, manifestOfJson } from '../../trust/manifest.ts';
import { quoted } from '../../trust/quoted.ts';
import { nameIn, type Place, placeOf } from '../../trust/repository.ts';
import { subjects, type TrustEntry, type TrustStore, type TrustSubject } from '../../trust/store.ts';

/** One finding about a folder. */
export interface Finding {
  readonly subject: TrustSubject;
  /** The entry that is stored when the user trusts it. */
  readonly entry: Omit<TrustEntry, 'added_at'>;
  readonly trusted: boolean;
  /** Heading → lines about it; not yet escaped for terminals. */
  readonly about: Readonly<Record<string, readonly string[]>>;
}

/**
 * Returns the findings about these subjects in a folder. Fails with `config_invalid` for a file that cannot be read or shown.
 */
export async function survey(
  folder: string,
  store: TrustStore,
  wanted: readonly TrustSubject[] = subjects,
): Promise<readonly Finding[]> {
  const place = placeOf(folder);
  const findings: Finding[] = [];
  for (const subject of wanted) {
    const found = await finders[subject](place, store);
    if (found !== undefined) findings.push(found);
  }
  return findings;
}

type Finder = (place: Place, store: TrustStore) => Promise<Finding | undefined>;

const finders: Readonly<Record<TrustSubject, Finder>> = {
  'handfast.yaml': (place, store) => fileFinding(place, 'handfast.yaml', store),
  'fleet.yaml': (place, store) => fileFinding(place, 'fleet.yaml', store),
  skills: skillsFinding,
  'agent files': agentFinding,
  repository: repositoryFinding,
};

const entryOf = (place: Place, subject: TrustSubject, files: TrustEntry['files']): Finding['entry'] => ({
  repository: place.repository,
  folder: folderIn(place),
  subject,
  path: place.folder,
  files,
});

/** Returns a configuration file and its effects. */
async function fileFinding(
  place: Place,
  name: 'handfast.yaml' | 'fleet.yaml',
  store: TrustStore,
): Promise<Finding | undefined> {
  const found = findFile(place.folder, name);
  if (found === undefined) return undefined;
  const { starts, loads, connects, settings, uncovered, files } = await manifestOf(found);
  return {
    subject: name,
    entry: entryOf(place, name, files),
    trusted: (await trustedFile(found, name, store)) !== undefined,
    about: {
      'starts, with your rights': starts,
      'loads into the process of Handfast': loads,
      'connects to': connects,
      sets: settings,
      'not covered': uncovered,
    },
  };
}

/** Finds the skills between the top of the repository and the folder. */
async function skillsFinding(place: Place, store: TrustStore): Promise<Finding | undefined> {
  const files: Record<string, string> = {};
  const lines: string[] = [];
  let trusted = true;
  const nowhere = join(place.folder, '.agents', 'skills');
  const roots = (await skillRoots({ cwd: place.folder, dataDirectory: nowhere, home: nowhere })).filter(
    ({ foreign }) => foreign,
  );
  await scanSkills(roots, async (path, bytes) => {
    files[placedSkill(path).name] = digestOf(bytes);
    lines.push(`${quoted(nameIn(place, path))}  (${counted(bytes.length, 'byte')})`);
    trusted &&= await isTrustedSkill(path, bytes, store);
    return false;
  });
  if (lines.length === 0) return undefined;
  return { subject: 'skills', entry: entryOf(place, 'skills', files), trusted, about: { 'gives to models': lines } };
}

/** Finds files that the programs of workers read in the folder. */
async function agentFinding(place: Place, store: TrustStore): Promise<Finding | undefined> {
  const { digests, read } = agentFilesOf(place);
  const there = Object.keys(digests).filter((name) => digests[name] !== ABSENT);
  if (there.length === 0) return undefined;
  const manifests = [...read].map(([file, { bytes }]) => manifestOfJson({ place, file, bytes }));
  return {
    subject: 'agent files',
    entry: entryOf(place, 'agent files', digests),
    trusted: await agentFilesTrusted(place.folder, store),
    about: {
      'workers of this folder read': there,
      starts: manifests.flatMap(({ starts }) => starts),
      'connects to': manifests.flatMap(({ connects }) => connects),
      sets: manifests.flatMap(({ settings }) => settings),
      'not covered': manifests.flatMap(({ uncovered }) => uncovered),
    },
  };
}

/** Finds the repository itself: git runs programs that its settings name. */
async function repositoryFinding(place: Place, store: TrustStore): Promise<Finding | undefined> {
  if (!place.isRepository) return undefined;
  return {
    subject: 'repository',
    entry: entryOf(place, 'repository', {}),
    trusted: await isTrustedRepository(place, store),
    about: { 'workers run git with the settings of': [quoted(place.repository)] },
  };
}
