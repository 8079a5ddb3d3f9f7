/**
 * TLS towards NATS servers: the options of the client, and the errors for a refused certificate.
 *
 * @see docs/nats.md#tls
 */

import { isIP } from 'node:net';
import { checkServerIdentity, createSecureContext, type PeerCertificate } from 'node:tls';
import { readRegularSync } from '../../../base/regular-file.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import type { ConnectionOptions } from './client.ts';

/** For servers that ask for TLS. Files are PEM. */
export interface NatsTls {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** The server is configured with `handshake_first`. */
  readonly handshakeFirst?: boolean;
}

/**
 * Returns the options of the client; undefined: it uses TLS where a server requires it. Files are read for every connection.
 * Fails with `not_configured` when one cannot be read or used now.
 */
export function tlsOf(wanted: NatsTls | undefined, servers: readonly string[]): ConnectionOptions['tls'] {
  // The client reads the scheme as a part of the address, and continues without TLS where the server allows it.
  if (wanted === undefined && !servers.some((server) => server.startsWith('tls://'))) return undefined;
  if (wanted !== undefined) prove(wanted);
  const named = servers.map((server) => new URL(server.replace(/^(?!\w+:\/\/)/, 'nats://')).hostname);
  const hosts = named.map((host) => host.replace(/^\[|\]$/g, ''));
  const check = (host: string, certificate: PeerCertificate) => identityProblem(hosts, host, certificate);
  // Not in the client's type, and passed on to Node with the rest.
  const verified = { checkServerIdentity: check } as ConnectionOptions['tls'];
  return { ...wanted, ...verified };
}

/**
 * Checks the name of a certificate. For a numeric address the client gives Node no name, and Node uses `localhost` then, which
 * is in no certificate. Such a certificate must be for one of the numbers that are configured.
 */
function identityProblem(hosts: readonly string[], host: string, certificate: PeerCertificate): Error | undefined {
  const unnamed = host.replace(/\.$/, '') === 'localhost';
  const numbers = hosts.filter((one) => isIP(one) !== 0);
  const accepted = unnamed && numbers.length > 0 ? [...numbers, ...hosts.filter((one) => one === 'localhost')] : [host];
  const problems = accepted.map((one) => checkServerIdentity(one, certificate));
  return problems.includes(undefined) ? undefined : problems[0];
}

function prove({ caFile, certFile, keyFile }: NatsTls): void {
  const read = (what: string, file: string | undefined): string | undefined => {
    if (file === undefined) return undefined;
    try {
      return readRegularSync(file).toString();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw fail('not_configured', `the ${what} for NATS cannot be read from the file ${file}: ${code}`, {}, error);
    }
  };
  const files = { ca: read('authority', caFile), cert: read('certificate', certFile), key: read('key', keyFile) };
  try {
    createSecureContext(files);
  } catch (error) {
    const problem = (error as { reason?: string; code?: string }).reason ?? (error as { code?: string }).code;
    throw fail('not_configured', `the certificate or key for NATS cannot be used: ${problem}`, {}, error);
  }
}

/** Codes that Node gives to refused certificates; OpenSSL's own have another form. */
const UNTRUSTED =
  /^(?:UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_|CERT_|CRL_|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH|ERR_TLS_CERT_)/;

/**
 * Returns the error, with advice, for a client error that is about TLS and does not pass; undefined: it is about something
 * else.
 */
export function tlsProblem(error: unknown): HandfastError | undefined {
  const { code: given = '', message } = error as { readonly code?: unknown; readonly message: string };
  const code = String(given);
  if (UNTRUSTED.test(code)) {
    const problem = `the certificate of the NATS server is not trusted: ${message}`;
    return fail('auth_failed', `${problem}; set nats.tls.ca_file to its authority`, { reason: code }, error);
  }
  if (/^ERR_SSL_TLSV?1.*(?:CERTIFICATE|UNKNOWN_CA)|ERR_SSL_.*ALERT.*CERT/.test(code)) {
    const problem = `the NATS server does not accept our certificate: ${code}`;
    return fail('auth_failed', `${problem}; it is named in nats.tls.cert_file and key_file`, { reason: code }, error);
  }
  if (/^ERR_SSL_/.test(code)) {
    const problem = `no TLS connection to the NATS server: ${code}`;
    return fail('config_invalid', `${problem}; set handshake_first as on the server`, { reason: code }, error);
  }
  if (/does not support 'tls'|tls.*is not available on this server/.test(message)) {
    return fail('config_invalid', 'TLS is configured, but the NATS server does not offer it', {}, error);
  }
  return undefined;
}
