/**
 * The processor time of work, for tests of how cost grows with size: unlike the time that passes, it does not depend on other
 * work of the machine. Linear work takes milliseconds for a megabyte, quadratic work minutes.
 */

/** Returns the milliseconds that this thread was busy with the work. */
export function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
