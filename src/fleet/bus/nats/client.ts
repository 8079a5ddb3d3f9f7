/**
 * The adapter file of the NATS client: the only file that names its packages. They are optional peers, loaded when a fleet is
 * first put on NATS.
 */
import { fail } from '../../../wire/errors.ts';

export type {
  ConsumerConfig,
  JetStreamClient,
  JetStreamManager,
  StreamConfig,
} from '@nats-io/jetstream';
export type { KV, KvEntry } from '@nats-io/kv';
export type {
  Authenticator,
  ConnectionOptions,
  Msg,
  MsgHdrs,
  NatsConnection,
  Subscription,
} from '@nats-io/transport-node';

/** The three packages. */
export interface NatsPackages {
  readonly transport: typeof import('@nats-io/transport-node');
  readonly jetstream: typeof import('@nats-io/jetstream');
  readonly kv: typeof import('@nats-io/kv');
}

const PACKAGES = '@nats-io/transport-node @nats-io/jetstream @nats-io/kv';

/** Loads the client. Fails with `not_configured`, whose message names the packages to install. */
export async function loadNats(): Promise<NatsPackages> {
  try {
    const [transport, jetstream, kv] = await Promise.all([
      import('@nats-io/transport-node'),
      import('@nats-io/jetstream'),
      import('@nats-io/kv'),
    ]);
    return { transport, jetstream, kv };
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const reason = missing ? `they are not installed: npm install ${PACKAGES}` : (error as Error).message;
    throw fail('not_configured', `a fleet on NATS needs the packages ${PACKAGES}; ${reason}`, undefined, error);
  }
}
