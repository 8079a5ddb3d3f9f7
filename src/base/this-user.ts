/**
 * Checks whether a file, process or listener belongs to this user, so that a secret of the user may go there: a socket
 * file that only the user can have made, a process, a listener.
 *
 * Rule: SECURITY.md#threat-model, another user of the machine.
 */
import { lstatSync, readlinkSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Links that are followed on the way to a file; more are a loop. */
const MAX_LINKS = 40;
const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;

/**
 * Returns true for the user of this process. Root works with the folder of another user if it runs with that user's
 * home, as after `sudo -E`: then the owner of `folder` is this user as well.
 */
export function isThisUser(uid: number, folder?: string): boolean {
  const self = process.geteuid!();
  if (uid === self) return true;
  return self === 0 && folder !== undefined && uid === ownerOf(folder);
}

function ownerOf(folder: string): number | undefined {
  return statSync(folder, { throwIfNoEntry: false })?.uid;
}

/**
 * Returns the reason why another user could have made the socket at `path`, or could replace it; undefined if only this
 * user and root can. A process that binds a path becomes the owner of the file, so the owner is the user whose process
 * listens there. Every folder above it counts, and so does every link on the way.
 *
 * @param home the user's Handfast folder, for {@link isThisUser}
 * @throws the errors of the file system, `ENOENT` among them
 */
export function foreignSocket(path: string, home?: string): string | undefined {
  let left = MAX_LINKS;
  const check = (file: string, isLast: boolean): string | undefined => {
    const parent = dirname(file);
    if (parent !== file) {
      const above = check(parent, false);
      if (above !== undefined) return above;
    }
    const found = lstatSync(file);
    const own = isThisUser(found.uid, home);
    if (!own && (isLast || found.uid !== 0)) return `${file} belongs to another user`;
    if (found.isSymbolicLink()) {
      left -= 1;
      if (left < 0) return `${file} is a loop of links`;
      return check(resolve(parent, readlinkSync(file)), isLast);
    }
    if (found.isDirectory() && mayBeChanged(found)) return `other users may write to ${file}`;
    return isLast && !found.isSocket() ? `${file} is not a socket` : undefined;
  };
  return check(resolve(path), true);
}

/**
 * Returns true for a folder in which other users may replace the files of this one. A group with the same number as the
 * user is the private group that many systems make for each user.
 */
function mayBeChanged({ mode, uid, gid }: { mode: number; uid: number; gid: number }): boolean {
  if ((mode & STICKY) !== 0) return false;
  return (mode & OTHERS_WRITE) !== 0 || ((mode & GROUP_WRITES) !== 0 && gid !== uid && gid !== 0);
}
