/**
 * A reporter beside the usual one: the last lines of `npm test` name every test that was skipped, and why, so that a run which
 * left something out does not look complete.
 *
 * Named by the scripts of package.json. CommonJS, because the runner takes what a reporter's module is, and modules here
 * export by name.
 */
module.exports = async function* skippedReporter(events) {
  const skipped = [];
  for await (const { type, data } of events) {
    if (type !== 'test:pass' || data.skip === undefined || data.skip === false) continue;
    const why = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason was given';
    skipped.push(`- ${data.name} (${data.file?.replace(`${process.cwd()}/`, '') ?? 'unknown file'}): ${why}\n`);
  }
  yield skipped.length === 0 ? '\nno test was skipped\n' : `\nskipped ${skipped.length}:\n${skipped.join('')}`;
};
