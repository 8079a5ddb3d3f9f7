/**
 * The parts of `docs/interop.md` that a run writes: the outcome of every call of the A2E Python SDK's client against a
 * host of this project, and of every call of this project's client against a host of the SDK. Same outcomes, same text:
 * no times, no versions, no counts that vary.
 */
import { fileURLToPath } from 'node:url';
import { pageWith, table } from '../../scripts/schema-tables.ts';
import { type Report, TRANSPORTS, type Transport } from './python-whole.ts';
import { ADDITION, DIFFERENCES, type Outcome } from './sdk-host-calls.ts';

export const PAGE = 'docs/interop.md';
const root = fileURLToPath(new URL('../..', import.meta.url));

/** Returns the page with its parts from these runs. Throws when its marks are missing. */
export function interopPage(
  reports: Readonly<Record<Transport, Report>>,
  outcomes: Readonly<Record<'stdio' | 'http', readonly Outcome[]>>,
): string {
  return pageWith(root, PAGE, 'interop', {
    'sdk-client': sdkClient(reports),
    'sdk-faults': sdkFaults(reports),
    'sdk-host': sdkHost(outcomes),
  });
}

const code = (name: string): string => `\`${name}\``;
const list = (names: readonly string[]): string => names.map(code).join(', ');
const none = (text: string): string => (text === '' ? '–' : text);

/** Splits `Class.method` into class and method; a function has itself as its class. */
function partsOf(call: string): [owner: string, method: string] {
  const [owner = '', method = ''] = call.split('.');
  return [owner, method === '__init__' ? '(constructor)' : method || owner];
}

/** Groups names by the part before their dot. */
function byOwner(calls: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const call of calls) {
    const [owner, method] = partsOf(call);
    found.set(owner, [...(found.get(owner) ?? []), method]);
  }
  return found;
}

const NAMES: Readonly<Record<Transport, string>> = { stdio: 'stdio', http: 'HTTP', direct: 'in process' };

/** Returns true if all checks of a call succeeded over a transport; undefined if the transport has no such call. */
function worked({ checks }: Report, call: string): boolean | undefined {
  const rows = checks.filter((row) => row.call === call);
  return rows.length === 0 ? undefined : rows.every(({ outcome }) => outcome === 'ok');
}

function sdkClient(reports: Readonly<Record<Transport, Report>>): string {
  const { calls, requests, sent } = reports.stdio;
  const all = TRANSPORTS.flatMap((transport) => reports[transport].checks);
  const faultsOf = (call: string) =>
    new Set(all.filter((row) => row.call === call && row.fault !== '').map(({ fault }) => fault));
  const rows = [...byOwner(Object.keys(calls))].map(([owner, methods]) => {
    const callOf = (method: string) =>
      method === owner ? owner : `${owner}.${method === '(constructor)' ? '__init__' : method}`;
    const tried = (method: string) => all.filter((row) => row.call === callOf(method));
    const asIs = methods.filter((method) => tried(method).some(({ fault }) => fault === ''));
    const mended = methods.filter((method) => faultsOf(callOf(method)).size > 0);
    const columns = TRANSPORTS.map((transport) => {
      const results = methods.map((method) => worked(reports[transport], callOf(method)));
      const own = results.filter((each) => each !== undefined);
      return own.length === 0 ? '–' : own.every(Boolean) ? 'yes' : 'no';
    });
    const marked = mended.map((method) => `${code(method)} (${[...faultsOf(callOf(method))].sort().join(', ')})`);
    return [code(owner), none(list(asIs)), none(marked.join(', ')), ...columns];
  });
  const byMessage = Object.keys(requests).filter((kind) =>
    sent[kind]?.every((call) => call === 'A2EClient.rpc' || /Transport/.test(call)),
  );
  const parameters = Object.values(calls).flat().length;
  return [
    `The SDK's client has ${Object.keys(calls).length} public calls with ${parameters} parameters, and models of ${Object.keys(requests).length} requests.`,
    'Each of them was made, with every parameter, and each did what it should; none was skipped. A call in the third column cannot',
    'work in the SDK as it is, or not in every form; it does with the named fault mended. “–” is a call of another transport.',
    '',
    table(
      ['Of the SDK', 'As they are', 'With a fault mended', ...TRANSPORTS.map((transport) => NAMES[transport])],
      rows,
    ),
    '',
    `The SDK has no calls for ${list(byMessage)}: these were sent by ${code('A2EClient.rpc')} with its models, or over its transport.`,
  ].join('\n');
}

function sdkFaults({ stdio }: Readonly<Record<Transport, Report>>): string {
  const rows = Object.entries(stdio.faults)
    .filter(([, { calls }]) => calls.length > 0)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, { reason, remedy, calls, error, sent, received }]) => {
      const replied = (kind: string) =>
        received.includes(
          kind === 'ping' ? 'pong' : kind.endsWith('/req') ? kind.replace('/req', '/resp') : `${kind}/resp`,
        );
      const wire =
        sent.length === 0
          ? 'nothing was sent'
          : `${sent.every(replied) ? 'the host had replied to' : 'sent'} ${list([...sent].sort())}`;
      const failed = error === '' ? 'a wrong result' : error.replace(/^(\S+) in (\S+)$/, '`$1` in `$2`');
      return [`${name}`, list(calls), reason, `${failed}; ${wire}`, remedy];
    });
  return table(['Fault', 'Calls', 'Behaviour of the SDK', 'As it is', 'Mended, in the test, so that'], rows);
}

function sdkHost(outcomes: Readonly<Record<'stdio' | 'http', readonly Outcome[]>>): string {
  const { stdio, http } = outcomes;
  const other = new Map(http.map(({ call, outcome }) => [call, outcome]));
  const isAddition = ({ call, outcome }: Outcome) => outcome === ADDITION && DIFFERENCES[call] === undefined;
  const works = stdio.filter(({ outcome }) => outcome === 'ok').map(({ call }) => call);
  const additions = byOwner(stdio.filter(isAddition).map(({ call }) => call));
  const owners = new Map(
    [...byOwner(stdio.map(({ call }) => call)).keys()].map((owner) => [owner, byOwner(works).get(owner) ?? []]),
  );
  const rows = [...owners].map(([owner, methods]) => [
    code(owner),
    none(list(methods)),
    none(list(additions.get(owner) ?? [])),
  ]);
  const differences = stdio
    .filter(({ call }) => DIFFERENCES[call] !== undefined)
    .map(({ call, outcome }) => [
      code(call),
      outcome === 'ok' ? 'works, with less' : code(outcome),
      DIFFERENCES[call]?.reason ?? '',
    ]);
  const same = stdio.every(({ call, outcome }) => other.get(call) === outcome);
  return [
    `The client of Handfast has ${stdio.length} calls for the ten capabilities that the SDK has plugins for; it has none for \`multi_agent\`.`,
    `Each was made over stdio and over HTTP${same ? ', with the same outcomes' : ''}. Additions are calls whose messages A2E 1.0 does not have: its host`,
    `refuses them at once with ${code(ADDITION)}, and the link stays open.`,
    '',
    table(['Of Handfast', 'Works', 'Additions'], rows),
    '',
    'Differences of its host from A2E 1.0:',
    '',
    table(['Call', 'Outcome', 'Reason'], differences),
  ].join('\n');
}
