/** Variables of the environment of this process for the time of one test: files of tests share a process. */
import type { TestContext } from 'node:test';

/** Sets a variable until the test has ended. */
export function setVariable(t: TestContext, name: string, value: string): void {
  const before = process.env[name];
  process.env[name] = value;
  t.after(() => {
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
  });
}
