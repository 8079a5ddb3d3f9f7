/**
 * fast-check for the tests of properties, with a fixed seed: a failing run fails again, and a new failure is caused by
 * a change. `HANDFAST_SEED=random` searches new cases; a number repeats the run that printed it.
 */
import fc from 'fast-check';

const { HANDFAST_SEED: seed = '20260101' } = process.env;
if (seed !== 'random') fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });

export { default } from 'fast-check';
