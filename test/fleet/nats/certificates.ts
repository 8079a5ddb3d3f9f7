/** Certificates for tests of TLS, made by `openssl` in a folder of the test. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of PEM files. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface Authority extends Certificate {
  /** Makes a certificate this authority vouches for. `extension`: a line of OpenSSL's for its purpose. */
  issue(name: string, extension: string): Certificate;
}

/** Returns the reason why no certificates can be made here; undefined: they can. */
export function noOpenssl(): string | undefined {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'no openssl command, which makes the certificates: apt-get install openssl';
  }
}

/** Makes a separate authority. */
export function authority(folder: string, name = 'authority'): Authority {
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'pipe' });
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const files = (of: string): Certificate => ({ cert: join(folder, `${of}.pem`), key: join(folder, `${of}.key`) });
  const own = files(name);
  openssl('req', '-x509', ...curve, '-keyout', own.key, '-out', own.cert, '-subj', `/CN=${name}`, '-days', '2');
  return {
    ...own,
    issue(of, extension) {
      const { cert, key } = files(of);
      const [request, extensions] = [join(folder, `${of}.csr`), join(folder, `${of}.ext`)];
      writeFileSync(extensions, `${extension}\n`);
      openssl('req', ...curve, '-keyout', key, '-out', request, '-subj', `/CN=${of}`);
      const signed = ['-CA', own.cert, '-CAkey', own.key, '-CAcreateserial', '-days', '2', '-extfile', extensions];
      openssl('x509', '-req', '-in', request, '-out', cert, ...signed);
      return { cert, key };
    },
  };
}
