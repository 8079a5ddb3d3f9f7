/** The marked parts of the examples, `// #region NAME` to `// #endregion`: the README shows them and a test compares. */

/** The text of a region, without the indentation it has in its file. Throws when there is none. */
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
