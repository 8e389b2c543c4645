import { authorityCheck } from '../http/canonical-host.ts';
import { lookup } from 'node:dns/promises';
import { isPublicAddress } from '../http/guarded-request.ts';
import { METADATA_PATH } from '../oauth/metadata.ts';
import {
  createProbe,
  PROBE_HEADER,
  PROBE_PURPOSE,
  type ObservedRequest,
  PROBE_STREAM_MS,
  STREAM_TYPE,
} from '../http/proxy-probe.ts';
import { keyRing } from '../keys/key-ring.ts';
import { METADATA_PREFIX } from '../gateway/metadata.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import { checkDateHeader } from './clock.ts';
import type { Deployment } from './deployment.ts';
import { describeResponse, type HttpResponse, jsonObject, NoResponseError } from './http-client.ts';
import {
  type Finding,
  findingAbout,
  type FindingFactory,
  type Findings,
  okIfNone,
} from './report.ts';

export type Side = 'auth' | 'resource';

/** `isReachable`: Gatehouse receives the requests and answers them, so that further checks make sense. */
export type Reachability = { findings: Findings; isReachable: boolean };

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
    const host = hostFinding(deployment, url, metadata, seen);
    if (metadata.status === 421)
      return {
        findings: [finding.ok('Gatehouse responds there'), host, clock],
        isReachable: false,
      };
    const findings = [
      okIfNone(
        await readinessFinding(deployment, url),
        finding.ok('Gatehouse responds there, and is ready'),
      ),
      host,
      forwardedFindings(deployment, url, seen),
      clock,
    ];
    return { findings, isReachable: true };
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error;
    const remedy =
      error.remedy ??
      'check that the name resolves to the proxy, that the proxy runs, and that no firewall blocks it';
    const what = `the address cannot be reached from this machine: ${error.message}`;
    const findings = finding.problem({ what, why: UNREACHABLE, remedy });
    return { findings, isReachable: false };
  }
}

/** A busy machine may read both parts of a stream at once, although they arrived apart. */
const STREAM_ATTEMPTS = 2;

/** A proxy that keeps a stream back until it ends makes apps time out in long calls. */
export async function checkStreams(deployment: Deployment): Promise<Findings> {
  const { resourceUrl, settings } = deployment;
  const finding = findingAbout('streams', resourceUrl);
  if (!settings) return undefined;
  const headers = { ...probeHeaders(deployment), accept: STREAM_TYPE };
  let shown = '';
  for (let attempt = 1; attempt <= STREAM_ATTEMPTS; attempt += 1) {
    const { status, type, first, last } = await deployment.time(`${resourceUrl}/livez`, headers);
    if (status !== 200 || !type.startsWith(STREAM_TYPE))
      return finding.unknown(
        'streams cannot be checked: the proxy does not forward /livez, or the process has another root secret or version',
      );
    shown = `the first byte of a stream arrives after ${Math.round(first)} ms`;
    if (last - first > PROBE_STREAM_MS / 2) return finding.ok(shown);
  }
  return finding.warning({
    what: `${shown}, and not before its end: something in front keeps streams back`,
    why: 'apps see no progress, and end long calls because nothing arrives',
    remedy:
      'turn buffering and compression of responses off for this name (nginx: proxy_buffering off; the header X-Accel-Buffering: no is sent)',
  });
}

function probeHeaders({ settings, now }: Deployment): Record<string, string> {
  if (!settings) return {};
  const [key] = keyRing(settings, PROBE_PURPOSE);
  return { [PROBE_HEADER]: createProbe(key, now() / 1000), 'x-forwarded-for': FORGED_ADDRESS };
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

async function readinessFinding({ send }: Deployment, url: string): Promise<Findings> {
  const response = await send(`${url}/readyz`);
  if (jsonObject(response)?.['settings'] === 'differ')
    return findingAbout('ready', url).warning({
      what: 'the processes have different settings',
      why: 'what people and apps may do depends on the process that answers',
      remedy:
        'give all processes the same settings file and secrets, and run gatehouse reload; the page Health of the console names the processes',
    });
  return (
    response.status === 503 &&
    findingAbout('ready', url).problem({
      what: 'the process runs but is not ready',
      why: 'it cannot use its store, or is stopping; people are asked to try again',
      remedy: 'see the findings about the store, and the log of the process',
    })
  );
}

function hostFinding(
  { settings }: Deployment,
  url: string,
  metadata: HttpResponse,
  seen?: ObservedRequest,
): Finding {
  const finding = findingAbout('host', url);
  if (metadata.status === 421 || (seen && !authorityCheck(url)(seen.host)))
    return finding.problem({
      what: `requests for ${new URL(url).host} arrive with ${seen ? `the Host ${seen.host}` : 'another Host'}`,
      why: 'Gatehouse answers only for its own names, and refuses every other request with 421',
      remedy: `configure the proxy to keep the Host header (nginx: proxy_set_header Host $host), and check that the settings contain ${url}`,
    });
  if (seen || !settings) return finding.ok('proxies keep the Host header');
  return finding.ok('requests for this name are answered');
}

function forwardedFindings(
  { settings }: Deployment,
  url: string,
  seen?: ObservedRequest,
): Findings {
  if (!settings) return undefined;
  const finding = findingAbout('forwarded', url);
  if (!seen)
    return finding.unknown(
      'X-Forwarded-For cannot be checked: the proxy does not forward /livez, or the process has another root secret or version',
    );
  const { forwardedFor, forwardedProto, proxies, address } = seen;
  const added = forwardedFor.length - forwardedFor.lastIndexOf(FORGED_ADDRESS) - 1;
  const what = `the setting proxies is ${proxies}, but ${added} added to X-Forwarded-For on the way from this machine`;
  const forger =
    address === FORGED_ADDRESS
      ? 'any client can forge its address with the header'
      : 'a client that bypasses a proxy can forge its address';
  return okIfNone(
    [
      added > proxies &&
        finding.problem({
          what,
          why: `every client appears as ${address}, so that all share one rate limit and the log shows no client`,
          remedy: `set proxies to ${added}`,
        }),
      added < proxies &&
        finding.problem({
          what,
          why: `${forger}, and so evade every rate limit`,
          remedy: `set proxies to ${added}, or configure each proxy to add to the header (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)`,
        }),
      // Gatehouse ignores X-Forwarded-Proto, but the header shows a hop without TLS.
      url.startsWith('https:') &&
        /^http(,|$)/.test(forwardedProto.replace(/\s/g, '')) &&
        finding.warning({
          what: 'a proxy says that the request arrived by plain http (X-Forwarded-Proto)',
          why: 'a hop in front of it does not use TLS, where tokens can be intercepted',
          remedy:
            'use TLS between the proxies too, or configure the inner proxy to keep the header',
        }),
    ],
    finding.ok(`${added} proxies add to X-Forwarded-For, as the setting proxies says`),
  );
}

// The management API must not be public

const MANAGEMENT_PATH = '/api/v1/connectors';
const EXPOSED = 'its key is the only protection of every connect link';
const KEEP_PRIVATE =
  'keep it on this machine or in a private network, and use it through a tunnel or a VPN';

export async function checkManagementExposure(deployment: Deployment): Promise<Findings> {
  const { authUrl, resourceUrl, settings } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  return okIfNone(
    await Promise.all([
      ...urls.map((url) => forwardedApi(deployment, url)),
      settings && publicManagementUrl(settings.managementUrl),
    ]),
    findingAbout('management', settings?.managementUrl ?? authUrl).ok(
      'the management API is not reachable from the internet',
    ),
  );
}

async function forwardedApi({ send }: Deployment, url: string): Promise<Findings> {
  const { status } = await send(url + MANAGEMENT_PATH);
  return (
    (status === 401 || status === 200) &&
    findingAbout('management', url).problem({
      what: 'the proxy forwards the management API at the public address',
      why: EXPOSED,
      remedy: `configure the proxy to forward nothing to listen.management; ${KEEP_PRIVATE}`,
    })
  );
}

async function publicManagementUrl(url: string): Promise<Findings> {
  if (isLoopbackUrl(url)) return undefined;
  const { hostname } = new URL(url);
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  const open = found.find(({ address }) => isPublicAddress(address));
  return (
    open &&
    findingAbout('management', 'managementUrl').warning({
      what: `the management address ${url} resolves to the public address ${open.address}`,
      why: EXPOSED,
      remedy: KEEP_PRIVATE,
    })
  );
}
