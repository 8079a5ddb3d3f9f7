/**
 * fast-check for the tests of properties, with a seed that stays: a run that fails fails again, and one that fails newly is the
 * fault of a change. `HANDFAST_SEED=random` searches where no run was before; a number repeats the run that printed it.
 */
import fc from 'fast-check';

const { HANDFAST_SEED: seed = '20260101' } = process.env;
if (seed !== 'random') fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });

export { default } from 'fast-check';
