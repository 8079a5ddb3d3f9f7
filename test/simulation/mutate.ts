/**
 * Loads one shipped file with a mistake in it: `--import` this, and name the mutation in the variable `MUTATION`.
 */
import { registerHooks } from 'node:module';

export interface Mutation {
  /** End of its path. */
  readonly file: string;
  /** The replaced text; the file must contain it. */
  readonly from: string;
  readonly to: string;
}

const { file, from, to } = JSON.parse(process.env.MUTATION ?? '{"file":"no file"}') as Mutation;

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!url.endsWith(`/src/${file}`)) return loaded;
    const source = String(loaded.source);
    if (!source.includes(from)) throw new Error(`${file} does not have: ${from}`);
    return { ...loaded, source: source.replace(from, () => to) };
  },
});
