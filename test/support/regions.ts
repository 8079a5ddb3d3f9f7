/** The marked parts of the examples, `// #region NAME` to `// #endregion`: the README shows them and a test compares. */

/** Returns the text of a region, without its indentation in the file. Throws when the file has no such region. */
export function regionOf(source: string, name: string): string {
  const lines = source.split('\n');
  const start = lines.findIndex((line) => line.trim() === `// #region ${name}`);
  const end = lines.findIndex((line, index) => index > start && line.trim() === '// #endregion');
  if (start === -1 || end === -1) throw new Error(`no region named ${name}`);
  const indent = lines[start]!.indexOf('/');
  return lines
    .slice(start + 1, end)
    .map((line) => line.slice(indent))
    .join('\n');
}
