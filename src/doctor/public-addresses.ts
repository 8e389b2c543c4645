import { authorityCheck } from '../http/canonical-host.ts';
import { lookup } from 'node:dns/promises';
import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import { isPublicAddress } from '../authorization-server/engine/guarded-fetch.ts';
import { METADATA_PATH } from '../authorization-server/metadata.ts';
import {
  createProbe,
  PROBE_HEADER,
  PROBE_PURPOSE,
  type ObservedRequest,
} from '../http/proxy-probe.ts';
import { keyRing } from '../keys/key-ring.ts';
import { METADATA_PREFIX } from '../resource-server/metadata.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import { tlsFault } from '../tls-errors.ts';
import { checkDateHeader } from './clock.ts';
import type { Deployment } from './deployment.ts';
import { describeResponse, type HttpResponse, jsonObject, NoResponseError } from './http-client.ts';
import { type Finding, findingAbout, type FindingFactory, okIfNone } from './report.ts';

export type Side = 'auth' | 'resource';

/** `isReachable`: Gatehouse receives the requests and answers them, so that further checks make sense. */
export type Reachability = { findings: Finding[]; isReachable: boolean };

/** Reserved for documentation (RFC 5737), so no client has it. If Gatehouse believes it, clients can forge their address. */
const FORGED_ADDRESS = '192.0.2.77';

const UNREACHABLE = 'no app can sign in or call anything there';

/** Checks that requests reach Gatehouse, its clock, and the Host and X-Forwarded-For headers that proxies send it. */
export async function checkReachability(deployment: Deployment, side: Side): Promise<Reachability> {
  const url = side === 'auth' ? deployment.authUrl : deployment.resourceUrl;
  const finding = findingAbout('reach', url);
  try {
    const health = await deployment.send(`${url}/livez`, { headers: probeHeaders(deployment) });
    const path = side === 'auth' ? METADATA_PATH : METADATA_PREFIX;
    const metadata = await deployment.send(url + path);
    const clock = checkDateHeader(url, health);
    if (!isGatehouse(health, metadata))
      return { findings: [otherServer(finding, metadata), clock], isReachable: false };
    const seen = jsonObject(health)?.seen as ObservedRequest | undefined;
    const host = hostFindings(deployment, url, metadata, seen);
    if (metadata.status === 421) {
      const reached = finding.ok('Gatehouse responds there');
      return { findings: [reached, ...host, clock], isReachable: false };
    }
    const ready = await readinessFindings(deployment, url);
    const findings = [
      ...okIfNone(ready, finding.ok('Gatehouse responds there, and is ready')),
      ...host,
      ...forwardedFindings(deployment, url, seen),
      clock,
    ];
    return { findings, isReachable: true };
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error;
    return { findings: [noResponse(finding, error)], isReachable: false };
  }
}

function probeHeaders({ settings, now }: Deployment): Record<string, string> {
  if (!settings) return {};
  const [key] = keyRing(settings, PROBE_PURPOSE);
  return { [PROBE_HEADER]: createProbe(key, now() / 1000), 'x-forwarded-for': FORGED_ADDRESS };
}

function noResponse(finding: FindingFactory, { message, remedy }: NoResponseError): Finding {
  return finding.problem({
    what: `the address cannot be reached from this machine: ${message}`,
    why: UNREACHABLE,
    remedy:
      remedy ??
      'check that the name resolves to the proxy, that the proxy runs, and that no firewall blocks it',
  });
}

/** Checks the metadata too, because a proxy need not forward `/livez`. */
function isGatehouse(health: HttpResponse, metadata: HttpResponse): boolean {
  return typeof jsonObject(health)?.status === 'string' || jsonObject(metadata) !== undefined;
}

function otherServer(finding: FindingFactory, metadata: HttpResponse): Finding {
  const isGatewayError = metadata.status >= 500;
  return finding.problem({
    what: isGatewayError
      ? `the proxy responds with ${metadata.status}, because it does not reach Gatehouse`
      : `another program than Gatehouse responds there: ${describeResponse(metadata)}`,
    why: UNREACHABLE,
    remedy: isGatewayError
      ? 'check that Gatehouse runs, and that the proxy forwards requests to its address (listen.auth, listen.resource)'
      : 'configure the proxy to forward every path of this name to Gatehouse, including /.well-known/',
  });
}

async function readinessFindings({ send }: Deployment, url: string): Promise<Finding[]> {
  const { status } = await send(`${url}/readyz`);
  if (status !== 503) return [];
  return [
    findingAbout('ready', url).problem({
      what: 'the process runs but is not ready',
      why: 'it cannot use its store, or is stopping; people are asked to try again',
      remedy: 'see the findings about the store, and the log of the process',
    }),
  ];
}

function hostFindings(
  { settings }: Deployment,
  url: string,
  metadata: HttpResponse,
  seen?: ObservedRequest,
): Finding[] {
  const finding = findingAbout('host', url);
  const { host } = new URL(url);
  if (metadata.status === 421 || (seen && !authorityCheck(url)(seen.host))) {
    const what = seen
      ? `requests for ${host} arrive with the Host ${seen.host}`
      : `requests for ${host} arrive with another Host`;
    return [
      finding.problem({
        what,
        why: 'Gatehouse answers only for its own names, and refuses every other request with 421',
        remedy: `configure the proxy to keep the Host header (nginx: proxy_set_header Host $host), and check that the settings contain ${url}`,
      }),
    ];
  }
  if (seen || !settings) return [finding.ok('proxies keep the Host header')];
  return [finding.ok('requests for this name are answered')];
}

function forwardedFindings(
  { settings }: Deployment,
  url: string,
  seen?: ObservedRequest,
): Finding[] {
  if (!settings) return [];
  const finding = findingAbout('forwarded', url);
  if (!seen)
    return [
      finding.unknown(
        'X-Forwarded-For cannot be checked: the proxy does not forward /livez, or the process has another root secret or version',
      ),
    ];
  const { forwardedFor, proxies, address } = seen;
  const added = forwardedFor.length - forwardedFor.lastIndexOf(FORGED_ADDRESS) - 1;
  return okIfNone(
    [
      ...proxyCountFindings(finding, { added, proxies, address }),
      ...plainHopFindings(finding, url, seen),
    ],
    finding.ok(`${added} proxies add to X-Forwarded-For, as the setting proxies says`),
  );
}

type ProxyCount = { added: number; proxies: number; address: string };

function proxyCountFindings(
  finding: FindingFactory,
  { added, proxies, address }: ProxyCount,
): Finding[] {
  if (added === proxies) return [];
  const what = `the setting proxies is ${proxies}, but ${added} added to X-Forwarded-For on the way from this machine`;
  if (added > proxies)
    return [
      finding.problem({
        what,
        why: `every client appears as ${address}, so that all share one rate limit and the log shows no client`,
        remedy: `set proxies to ${added}`,
      }),
    ];
  return [
    finding.problem({
      what,
      why:
        address === FORGED_ADDRESS
          ? 'any client can forge its address with the header, and so evade every rate limit'
          : 'a client that bypasses a proxy can forge its address, and so evade every rate limit',
      remedy: `set proxies to ${added}, or configure each proxy to add to the header (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)`,
    }),
  ];
}

/** Gatehouse ignores X-Forwarded-Proto, but the header shows a hop without TLS. */
function plainHopFindings(
  finding: FindingFactory,
  url: string,
  { forwardedProto }: ObservedRequest,
): Finding[] {
  const isPlain = url.startsWith('https:') && /^http(,|$)/.test(forwardedProto.replace(/\s/g, ''));
  if (!isPlain) return [];
  return [
    finding.warning({
      what: 'a proxy says that the request arrived by plain http (X-Forwarded-Proto)',
      why: 'a hop in front of it does not use TLS, where tokens can be intercepted',
      remedy: 'use TLS between the proxies too, or configure the inner proxy to keep the header',
    }),
  ];
}

// Certificates

const DAY_MS = 86_400_000;
/** Automatic renewal happens earlier. */
const MIN_DAYS_LEFT = 14;
const CONNECT_TIMEOUT_MS = 5000;
const REFUSED = 'apps and browsers refuse to connect';

/** `fault` is Node's code for the reason why it does not trust the certificate. */
type PresentedCertificate = { certificate: PeerCertificate; fault?: string };

/** Other findings report these. */
const PERIOD_OR_NAME_FAULT =
  /^(CERT_HAS_EXPIRED|CERT_NOT_YET_VALID|ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/;

export async function checkCertificates(deployment: Deployment): Promise<Finding[]> {
  const { authUrl, resourceUrl } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  return (await Promise.all(urls.map((url) => checkCertificate(deployment, url)))).flat();
}

async function checkCertificate({ now, signal }: Deployment, url: string): Promise<Finding[]> {
  const finding = findingAbout('certificate', url);
  if (url.startsWith('http:')) return [finding.ok('plain http, without a certificate')];
  try {
    const { certificate, fault } = await fetchCertificate(new URL(url), signal);
    const daysLeft = Math.floor((Date.parse(certificate.valid_to) - now()) / DAY_MS);
    const findings = [
      ...periodFindings(finding, certificate, daysLeft, now()),
      ...nameFindings(finding, new URL(url).hostname, certificate),
      ...trustFindings(finding, certificate, fault),
    ];
    return okIfNone(findings, finding.ok(`the certificate is valid for ${daysLeft} more days`));
  } catch (error) {
    const tls = tlsFault(error, true);
    // The reachability of the address is a finding of its own.
    const reason = tls ? `the server ${tls.what}` : (error as Error).message;
    return [finding.unknown(`no TLS connection: ${reason}`)];
  }
}

function periodFindings(
  finding: FindingFactory,
  { valid_from: from, valid_to: to }: PeerCertificate,
  daysLeft: number,
  now: number,
): Finding[] {
  if (Date.parse(from) > now)
    return [
      finding.problem({
        what: `the certificate is not valid before ${from}`,
        why: REFUSED,
        remedy: 'check the clock of this machine and of the one that issued the certificate',
      }),
    ];
  if (daysLeft < 0)
    return [
      finding.problem({
        what: `the certificate expired on ${to}`,
        why: REFUSED,
        remedy: 'renew it, reload the proxy, and find out why automatic renewal failed',
      }),
    ];
  if (daysLeft >= MIN_DAYS_LEFT) return [];
  return [
    finding.warning({
      what: `the certificate expires in ${daysLeft} days, on ${to}`,
      why: `then ${REFUSED}; automatic renewal happens earlier, so it may have stopped`,
      remedy: 'renew it, and check that automatic renewal runs',
    }),
  ];
}

function nameFindings(
  finding: FindingFactory,
  host: string,
  certificate: PeerCertificate,
): Finding[] {
  if (!checkServerIdentity(host, certificate)) return [];
  const names = certificate.subjectaltname ?? `CN=${[certificate.subject.CN].flat().join(', ')}`;
  return [
    finding.problem({
      what: `the certificate is for ${names}, not for ${host}`,
      why: REFUSED,
      remedy: `configure the proxy to present a certificate for ${host} (server_name, SNI)`,
    }),
  ];
}

function trustFindings(
  finding: FindingFactory,
  certificate: PeerCertificate,
  fault: string | undefined,
): Finding[] {
  if (fault === undefined || PERIOD_OR_NAME_FAULT.test(fault)) return [];
  const lacksIntermediates =
    fault === 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' && namesIntermediate(certificate);
  const authority = [certificate.issuer.CN ?? certificate.issuer.O ?? 'a private one'].flat();
  const issuer = fault === 'DEPTH_ZERO_SELF_SIGNED_CERT' ? 'self-signed' : `by ${authority[0]}`;
  return [
    finding.problem({
      what: lacksIntermediates
        ? 'the proxy does not send the intermediate certificates'
        : `the certificate is not issued by a trusted authority, but ${issuer} (${fault})`,
      why: 'hosted apps refuse to connect, even if browsers accept it',
      remedy: lacksIntermediates
        ? 'configure the proxy to send the whole chain (fullchain.pem)'
        : 'use a certificate of a public authority, or add your own authority to NODE_EXTRA_CA_CERTS wherever it must be trusted',
    }),
  ];
}

/** Certificates of public authorities say where the next certificate of the chain is (RFC 5280 section 4.2.2.1); private ones hardly ever do. */
function namesIntermediate({ infoAccess }: PeerCertificate): boolean {
  return infoAccess?.['CA Issuers - URI'] !== undefined;
}

/** Accepts any certificate and sends no data. */
function fetchCertificate(
  { hostname, port }: URL,
  signal: AbortSignal,
): Promise<PresentedCertificate> {
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const servername = /^[\d.]+$|:/.test(host) ? '' : host;
    const to = { host, port: Number(port || 443), servername, rejectUnauthorized: false };
    const socket: TLSSocket = connect(to, () => {
      const certificate = socket.getPeerCertificate();
      // Node declares an Error but returns its code.
      const fault: unknown = socket.authorizationError;
      const code = fault instanceof Error ? (fault as NodeJS.ErrnoException).code : fault;
      resolve({ certificate, ...(code ? { fault: String(code) } : {}) });
      socket.destroy();
    });
    const fail = (reason: Error) => {
      socket.destroy();
      reject(reason);
    };
    const timedOut = () => fail(new Error('no response in time'));
    socket.setTimeout(CONNECT_TIMEOUT_MS, timedOut);
    socket.on('error', fail);
    signal.addEventListener('abort', timedOut, { once: true });
  });
}

// The management API must not be public

const MANAGEMENT_PATH = '/api/v1/connectors';
const EXPOSED = 'its key is the only protection of every connect link';
const KEEP_PRIVATE =
  'keep it on this machine or in a private network, and use it through a tunnel or a VPN';

export async function checkManagementExposure(deployment: Deployment): Promise<Finding[]> {
  const { authUrl, resourceUrl, settings } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  const throughProxy = await Promise.all(urls.map((url) => forwardedApi(deployment, url)));
  const byName = settings ? await publicManagementUrl(settings.managementUrl) : [];
  const finding = findingAbout('management', settings?.managementUrl ?? authUrl);
  return okIfNone(
    [...throughProxy.flat(), ...byName],
    finding.ok('the management API is not reachable from the internet'),
  );
}

async function forwardedApi({ send }: Deployment, url: string): Promise<Finding[]> {
  const { status } = await send(url + MANAGEMENT_PATH);
  if (status !== 401 && status !== 200) return [];
  return [
    findingAbout('management', url).problem({
      what: 'the proxy forwards the management API at the public address',
      why: EXPOSED,
      remedy: `configure the proxy to forward nothing to listen.management; ${KEEP_PRIVATE}`,
    }),
  ];
}

async function publicManagementUrl(url: string): Promise<Finding[]> {
  if (isLoopbackUrl(url)) return [];
  const { hostname } = new URL(url);
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  const open = found.find(({ address }) => isPublicAddress(address));
  if (!open) return [];
  return [
    findingAbout('management', 'managementUrl').warning({
      what: `the management address ${url} resolves to the public address ${open.address}`,
      why: EXPOSED,
      remedy: KEEP_PRIVATE,
    }),
  ];
}
