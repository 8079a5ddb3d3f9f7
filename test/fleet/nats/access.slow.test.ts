/**
 * The clients that may connect to the servers of a fleet, and the servers that it believes: each way of signing in, as
 * `fleet.yaml` and the file of a worker have it, against a real server.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import { nkeys } from '@nats-io/transport-node';
import type { Log } from '../../../src/base/log.ts';
import { loadFleetConfig, loadWorkerConfig } from '../../../src/config/fleet-config.ts';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { fleetNats, natsAccess } from '../../../src/server/fleet/fleet-nats.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { authority, noOpenssl } from './certificates.ts';
import { NatsServer, natsTest } from './server.ts';

type Env = Readonly<Record<string, string>>;

/** Remembers everything that is logged. */
function recording(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const say = (message: string, fields?: Record<string, unknown>): void =>
    void lines.push(`${message} ${JSON.stringify(fields)}`);
  return { lines, debug: say, info: say, warn: say, error: say };
}

interface Tried {
  /** Settings below `nats:`, one a line. */
  readonly settings: readonly string[];
  readonly env?: Env;
  readonly bus?: string;
  readonly log?: Log;
}

/** Starts an orchestrator of `fleet.yaml`, to be stopped; `works` adds a worker of a separate file that does a task. */
async function tried(server: NatsServer, { settings, env = {}, bus = server.url, log = recording() }: Tried) {
  const data = server.file('data');
  mkdirSync(data, { recursive: true });
  const nats = settings.map((line) => `  ${line}\n`).join('');
  const file = server.file('fleet.yaml');
  writeFileSync(file, `name: main\nbus: ${bus}\ndata_dir: ${data}\n${nats === '' ? '' : `nats:\n${nats}`}`);
  const config = await loadFleetConfig(file, { env });
  const parts = await fleetNats(config, { log, env });
  assert.ok(parts !== undefined);
  const events = new PeerRecorder();
  await parts.bus.start(events);
  return {
    events,
    async stop() {
      await parts.bus.close();
      await parts.close();
    },
  };
}

async function works(server: NatsServer, attempt: Tried): Promise<void> {
  const fleet = await tried(server, attempt);
  const { settings, env = {} } = attempt;
  const nats = settings.filter((line) => !line.startsWith('replicas')).map((line) => `  ${line}\n`);
  writeFileSync(server.file('worker.yaml'), `id: worker-1\nexecutor: rehearsal\nnats:\n${nats.join('')}`);
  const loaded = await loadWorkerConfig(server.file('worker.yaml'), { env });
  const servers = (attempt.bus ?? server.url).replace(/[[\] ]/g, '').split(',');
  const member = joinNats(new ScriptedWorker(), { servers, ...natsAccess(loaded.nats), env, log: recording() });
  try {
    await member.accepted;
    // The server knows a task again that it had before.
    const id = crypto.randomUUID();
    await (await fleet.events.peer('worker-1')).send(aDispatch(id), { mode: 'structured' });
    await fleet.events.until(() => fleet.events.results(id).length === 1, 'the result');
  } finally {
    await member.close();
    await fleet.stop();
  }
}

/**
 * Asserts that an attempt is refused with this, and that neither the message nor the log has anything that should be secret.
 */
async function refused(server: NatsServer, attempt: Tried, code: string, message: RegExp, secret?: string) {
  const log = recording();
  await assert.rejects(
    tried(server, { ...attempt, log }).then((fleet) => fleet.stop()),
    (error: Error & { readonly code: string }) => {
      assert.deepEqual([error.code, message.test(error.message)], [code, true], `${error.code}: ${error.message}`);
      if (secret !== undefined) assert.ok(![error.message, error.stack, ...log.lines].join('\n').includes(secret));
      return true;
    },
  );
}

/** Makes a token as servers of a fleet know it: made by hand, signed with a key. */
function jwt(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, name: string, nats: object): string {
  const coded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = {
    jti: crypto.randomUUID(),
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    name,
    sub: subject.getPublicKey(),
    nats: { version: 2, ...nats },
  };
  const text = `${coded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${coded(claims)}`;
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`;
}

const seedOf = (pair: nkeys.KeyPair): string => Buffer.from(pair.getSeed()).toString();

// They wait more than they work.
describe('access to NATS', { concurrency: 2 }, () => {
  natsTest('a user with a password from a variable or a file', async (context, installed) => {
    const config = 'authorization { users = [ { user: fleet, password: "open-sesame" } ] }';
    const server = await NatsServer.start(context, installed, { config });
    const byVariable = { settings: ['user: fleet', 'password_env: NATS_PASSWORD'] };
    await works(server, { ...byVariable, env: { NATS_PASSWORD: 'open-sesame' } });
    const wrong = { NATS_PASSWORD: 'open-barley' };
    const advice = /check the password of user fleet in the environment variable NATS_PASSWORD/;
    await refused(server, { ...byVariable, env: wrong }, 'auth_failed', advice, 'open-barley');
    await refused(server, byVariable, 'not_configured', /NATS_PASSWORD: it is empty, or not set/);
    await refused(server, { settings: [] }, 'auth_failed', /nothing is configured: name credentials_file, nkey_file/);
    writeFileSync(server.file('password'), 'open-sesame\n');
    const byFile = { settings: ['user: fleet', 'password_file: password'] };
    await works(server, byFile);
    // Another instance's file: the right place, the wrong content.
    writeFileSync(server.file('password'), 'of-yesterday\n');
    await refused(server, byFile, 'auth_failed', /in the file .*password/, 'of-yesterday');
  });

  natsTest('a token', async (context, installed) => {
    const server = await NatsServer.start(context, installed, { config: 'authorization { token: "t0ken" }' });
    await works(server, { settings: ['token_env: NATS_TOKEN'], env: { NATS_TOKEN: 't0ken' } });
    const file = { settings: ['token_file: /nowhere/token'] };
    await refused(
      server,
      file,
      'not_configured',
      /token for NATS cannot be read from the file \/nowhere\/token: ENOENT/,
    );
  });

  natsTest('an NKey', async (context, installed) => {
    const [ours, other] = [nkeys.createUser(), nkeys.createUser()];
    const config = `authorization { users = [ { nkey: ${ours.getPublicKey()} } ] }`;
    const server = await NatsServer.start(context, installed, { config });
    const settings = ['nkey_file: fleet.nk'];
    writeFileSync(server.file('fleet.nk'), `${seedOf(ours)}\n`);
    await works(server, { settings });
    writeFileSync(server.file('fleet.nk'), `${seedOf(other)}\n`);
    await refused(server, { settings }, 'auth_failed', /check the NKey in the file .*fleet\.nk/, seedOf(other));
    writeFileSync(server.file('fleet.nk'), 'not a seed\n');
    await refused(server, { settings }, 'not_configured', /fleet\.nk does not hold the NKey/, 'not a seed');
  });

  natsTest('a credentials file of an operator', async (context, installed) => {
    const [operator, account, system, user] = [
      nkeys.createOperator(),
      nkeys.createAccount(),
      nkeys.createAccount(),
      nkeys.createUser(),
    ];
    const limits = { subs: -1, conn: -1, leaf: -1, imports: -1, exports: -1, data: -1, payload: -1, wildcards: true };
    const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
    const accountJwt = jwt(operator, account, 'fleet', { type: 'account', limits: { ...limits, ...storage } });
    const systemJwt = jwt(operator, system, 'SYS', { type: 'account', limits });
    const about = { type: 'operator', system_account: system.getPublicKey() };
    const config = `
operator: ${jwt(operator, operator, 'operator', about)}
system_account: ${system.getPublicKey()}
resolver: MEMORY
resolver_preload: {
  ${account.getPublicKey()}: ${accountJwt}
  ${system.getPublicKey()}: ${systemJwt}
}`;
    const server = await NatsServer.start(context, installed, { config });
    const credentials = (issuer: nkeys.KeyPair): string => {
      const userJwt = jwt(issuer, user, 'orchestrator', { type: 'user', subs: -1, data: -1, payload: -1 });
      const block = (what: string, text: string): string =>
        `-----BEGIN ${what}-----\n${text}\n------END ${what}------\n\n`;
      return block('NATS USER JWT', userJwt) + block('USER NKEY SEED', seedOf(user));
    };
    const settings = ['credentials_file: fleet.creds'];
    writeFileSync(server.file('fleet.creds'), credentials(account));
    await works(server, { settings });
    writeFileSync(server.file('fleet.creds'), credentials(nkeys.createAccount()));
    await refused(
      server,
      { settings },
      'auth_failed',
      /check the credentials in the file .*fleet\.creds/,
      seedOf(user),
    );
    writeFileSync(server.file('fleet.creds'), 'nothing\n');
    await refused(server, { settings }, 'not_configured', /fleet\.creds does not hold the credentials/);
  });

  const missing = noOpenssl();
  const encrypted =
    (body: (server: NatsServer) => Promise<void>, verify: boolean) =>
    async (context: TestContext, installed: Parameters<typeof NatsServer.start>[1]): Promise<void> => {
      if (missing !== undefined) {
        assert.equal(process.env.CI, undefined, missing);
        return context.skip(missing);
      }
      const server = new NatsServer(installed, { config: 'include "tls.conf"' });
      context.after(() => server.remove());
      certificates(server, verify);
      await server.up();
      await body(server);
    };

  natsTest(
    'a server with a certificate of the configured authority is believed, and no other',
    encrypted(async (server) => {
      const settings = ['tls: { ca_file: authority.pem }'];
      await works(server, { settings });
      await works(server, { settings, bus: server.url.replace('nats:', 'tls:') });
      await refused(server, { settings: [] }, 'auth_failed', /certificate of the NATS server is not trusted.*ca_file/);
      const others = { settings: ['tls: { ca_file: strangers.pem }'] };
      await refused(server, others, 'auth_failed', /not trusted/);
      // The certificate is for a number, and this is another name of the same machine.
      const elsewhere = { settings, bus: server.url.replace('127.0.0.1', 'localhost') };
      await refused(server, elsewhere, 'auth_failed', /not trusted: .*does not match/);
      const absent = { settings: ['tls: { ca_file: nowhere.pem }'] };
      await refused(server, absent, 'not_configured', /authority for NATS cannot be read .*nowhere\.pem: ENOENT/);
      const swapped = { settings: ['tls: { ca_file: authority.pem, cert_file: fleet.pem, key_file: server.key }'] };
      await refused(
        server,
        swapped,
        'not_configured',
        /certificate or key for NATS cannot be used: key values mismatch/,
      );
      const first = { settings: ['tls: { ca_file: authority.pem, handshake_first: true }'] };
      await refused(server, first, 'config_invalid', /set handshake_first as on the server/);
    }, false),
  );

  natsTest(
    'a server that asks for a certificate is shown one; without, what it demands is reported',
    encrypted(async (server) => {
      const settings = ['tls: { ca_file: authority.pem, cert_file: fleet.pem, key_file: fleet.key }'];
      await works(server, { settings });
      const bus = natsBus({
        servers: server.url,
        name: 'bare',
        tls: { caFile: server.file('authority.pem') },
        connectTimeoutMs: 300,
      });
      await assert.rejects(bus.start(new PeerRecorder()), { code: 'unreachable', message: /nats\.tls\.cert_file/ });
    }, true),
  );

  natsTest('a server without TLS is not spoken to where TLS is configured', async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    await refused(
      server,
      { settings: ['tls: {}'] },
      'config_invalid',
      /TLS is configured, but the NATS server does not offer it/,
    );
  });

  natsTest('of several servers one that answers is enough', async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    const bus = `[nats://127.0.0.1:1, ${server.url}]`;
    await works(server, { settings: ['replicas: 1'], bus });
  });
});

/** Certificates of the server and of a fleet, beside the configuration of the server. */
function certificates(server: NatsServer, verify: boolean): void {
  const folder = server.file('.');
  const own = authority(folder);
  authority(folder, 'strangers');
  const { cert, key } = own.issue('server', 'subjectAltName = IP:127.0.0.1');
  own.issue('fleet', 'extendedKeyUsage = clientAuth');
  const words = `cert_file: "${cert}", key_file: "${key}", ca_file: "${own.cert}", verify: ${verify}`;
  writeFileSync(join(folder, 'tls.conf'), `tls { ${words} }\n`);
}
