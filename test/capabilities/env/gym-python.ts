/** The Python with gymnasium of the tests: `HANDFAST_GYM_PYTHON`, or an environment made once. */
import { virtualPython } from '../../interop/virtual-python.ts';

const named = process.env.HANDFAST_GYM_PYTHON ?? '';

/** The reason to skip tests without gymnasium; false when it exists. Continuous integration requires it. */
export const skip: string | false =
  named === '' && process.env.CI === undefined && 'set HANDFAST_GYM_PYTHON to a Python that has gymnasium and minari';

/** Returns the interpreter. Throws when it cannot be made. */
export const gymPython = (): string =>
  named === '' ? virtualPython('gymnasium', ['gymnasium==1.4.0', 'minari[hdf5]==0.5.4', 'pillow']) : named;
