/**
 * The adapter file of the NATS client: the only file that names its packages. They are optional peers, loaded when a fleet is
 * first put on NATS.
 */
import { fail } from '../../../wire/errors.ts';

export type {
  ConsumerConfig,
  ConsumerInfo,
  ConsumerMessages,
  JetStreamClient,
  JetStreamManager,
  JsMsg,
  StreamConfig,
} from '@nats-io/jetstream';
export type {
  Authenticator,
  ConnectionOptions,
  Msg,
  MsgHdrs,
  NatsConnection,
  Subscription,
} from '@nats-io/transport-node';

/** The two packages. */
export interface NatsPackages {
  readonly transport: typeof import('@nats-io/transport-node');
  readonly jetstream: typeof import('@nats-io/jetstream');
}

const PACKAGES = '@nats-io/transport-node @nats-io/jetstream';

/** Loads the client. Fails with `not_configured`, whose message names the packages to install. */
export async function loadNats(): Promise<NatsPackages> {
  try {
    const [transport, jetstream] = await Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')]);
    return { transport, jetstream };
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const reason = missing ? `they are not installed: npm install ${PACKAGES}` : (error as Error).message;
    throw fail('not_configured', `a fleet on NATS needs the packages ${PACKAGES}; ${reason}`, undefined, error);
  }
}
