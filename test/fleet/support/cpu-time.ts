/**
 * What work costs a processor, for tests of how cost grows with size: unlike the time that passes, it does not depend on
 * what else the machine does. Linear work takes milliseconds for a megabyte, quadratic work minutes.
 *
 * Used by tests of parsers.
 */

/** Milliseconds this thread was busy with it. */
export function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
