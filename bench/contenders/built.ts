/**
 * The modules of the build that no export of the package names. Handfast is measured in its installed form: the
 * compiled JavaScript, like every package it is compared with; run from its sources it is some 5 % slower.
 */

/** Loads `dist/FILE.js`; the type parameter is the type of its source. */
export function built<Module>(file: string): Promise<Module> {
  return import(new URL(`../../dist/${file}.js`, import.meta.url).href);
}
