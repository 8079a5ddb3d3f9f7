/**
 * The processor time of work, for tests of how cost grows with size: unlike the time that passes, it does not depend on other
 * work of the machine. Linear work takes milliseconds for a megabyte, quadratic work minutes.
 */

/** Milliseconds this thread was busy with it. */
export function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
