import { isListedDocument } from '../settings/document-hosts.ts';
import { AddressNotPublic, type Network } from '../http/guarded-request.ts';
import { fetchDocument, KEY_SET, requireAddressGuard } from '../oauth/engine/guarded-fetch.ts';
import { isObject } from '../json-values.ts';
import { rootMessage } from '../error-causes.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import { allowedApps } from '../settings/apps.ts';
import { publicKeys } from '../settings/key-set.ts';
import { fetchIssuerKeys } from '../workloads/issuer-keys.ts';
import type { ConfiguredDeployment, Deployment } from './deployment.ts';
import { describeResponse, jsonObject, NoResponseError } from './http-client.ts';
import { tlsFault } from '../tls-errors.ts';
import { counted, findingAbout, type Findings, okIfNone } from './report.ts';

/** Checks that client metadata documents cannot be fetched from a name that resolves to this machine. */
export async function checkDocumentGuard({ network }: Deployment): Promise<Findings> {
  const finding = findingAbout('document-guard', 'client metadata documents');
  try {
    await requireAddressGuard(network);
    return finding.ok('internal addresses are refused');
  } catch {
    return finding.problem({
      what: 'a client metadata document would be fetched from this machine itself',
      why: 'anybody could make Gatehouse send requests to internal servers (SSRF)',
      remedy:
        'run an unmodified release; until then, accept no documents (clients.metadataDocumentHosts: [])',
    });
  }
}

/** Fetches the metadata document of each app that the settings allow, as the authorization server does when a person connects it. */
export async function checkAppDocuments({
  settings: { clients, production },
  network,
}: ConfiguredDeployment): Promise<Findings> {
  // Hosted apps do not reach a trial system.
  if (!production) return undefined;
  const { registration, metadataDocuments, metadataDocumentHosts } = clients;
  const hosts = metadataDocumentHosts ?? (registration === 'closed' ? [] : undefined);
  const isFetched = (url: string) =>
    !metadataDocuments.some((own) => own.url === url) &&
    (hosts === undefined || isListedDocument(hosts, url));
  const found = await Promise.all(
    allowedApps(clients).map(
      async ({ name, document }) =>
        document !== undefined && isFetched(document) && checkAppDocument(name, document, network),
    ),
  );
  const none = 'no app of the settings has a document that must be fetched';
  return okIfNone(found, findingAbout('app-documents', 'clients.apps').ok(none));
}

async function checkAppDocument(name: string, url: string, network: Network): Promise<Findings> {
  const finding = findingAbout('app-documents', name);
  try {
    await fetchDocument(url, network);
    return finding.ok('the metadata document of the app can be fetched');
  } catch (error) {
    const { host } = new URL(url);
    return finding.warning({
      what: `the metadata document at ${url} cannot be fetched: ${rootMessage(error)}`,
      why: 'people who use this app see a page that it cannot be verified, and cannot connect',
      remedy: `let Gatehouse connect to ${host}, port 443, or through the proxy of the network (HTTPS_PROXY). Without a way out to the internet, put a copy of the document into clients.metadataDocuments (url and document), or take the app out of clients.apps`,
    });
  }
}

/** Fetches the keys of each pre-registered client that has `jwksUri`, as the authorization server does. */
export async function checkClientKeys({
  settings,
  network,
}: ConfiguredDeployment): Promise<Findings> {
  return Promise.all(
    settings.clients.preRegistered.map(
      async ({ id, jwksUri }) => jwksUri !== undefined && checkKeysOf(id, jwksUri, network),
    ),
  );
}

async function checkKeysOf(id: string, jwksUri: string, network: Network): Promise<Findings> {
  const finding = findingAbout('client-keys', id);
  try {
    const { text } = await fetchDocument(jwksUri, network, KEY_SET);
    const { length } = publicKeys(JSON.parse(text));
    return finding.ok(`the keys of the app can be fetched (${length})`);
  } catch (error) {
    return finding.problem({
      what: `the keys at ${jwksUri} cannot be used: ${rootMessage(error)}`,
      why: 'the app cannot authenticate, so nobody can connect it',
      remedy:
        'check clients.preRegistered[].jwksUri and its host, which needs a public address; or set jwks instead',
    });
  }
}

/** Fetches the keys of each trusted issuer, as the check of its assertions does. A fetched key without `kid` is found only by assertions without one, and only if it is the only key of its type. */
export async function checkIssuerKeys(deployment: ConfiguredDeployment): Promise<Findings> {
  return Promise.all(
    deployment.settings.authorization.trustedIssuers.map((issuer) =>
      checkKeysOfIssuer(deployment, issuer),
    ),
  );
}

async function checkKeysOfIssuer(
  deployment: ConfiguredDeployment,
  trusted: TrustedIssuer,
): Promise<Findings> {
  const { issuer, jwksUri, jwks, caFile, tokenFile, workloads = [] } = trusted;
  const isFound = jwksUri !== undefined || (workloads.length > 0 && !jwks);
  if (!isFound) return undefined;
  const finding = findingAbout('issuer-keys', issuer);
  const isPlain = workloads.length === 0 && caFile === undefined && tokenFile === undefined;
  const found = await (isPlain && jwksUri !== undefined
    ? keysForAssertions(deployment, jwksUri)
    : keysForWorkloads(deployment, trusted));
  const place = jwksUri ?? issuer;
  if ('failure' in found)
    return finding.problem({
      what: `the keys at ${place} cannot be used: ${found.failure}`,
      why: 'the assertions of the issuer are refused, so its people and workloads get no access',
      remedy:
        found.remedy ??
        'check jwksUri, caFile, tokenFile and privateNetwork in authorization.trustedIssuers, and that this machine may connect to its host; or set jwks instead',
    });
  const { keys } = found;
  const unnamed = keys.filter((key) => !isObject(key) || key['kid'] === undefined).length;
  if (unnamed === 0) return finding.ok(`the keys of the issuer can be fetched (${keys.length})`);
  return finding.warning({
    what: `${unnamed} of ${counted(keys.length, 'key')} at ${place} have no kid`,
    why: 'assertions that name a key are refused (bad_signature), and with several keys of a type those that name none too',
    remedy: 'let the issuer publish a kid with each key, or set jwks in place of jwksUri',
  });
}

type IssuerKeys = { keys: readonly unknown[] } | { failure: string; remedy?: string | undefined };

async function keysForAssertions(
  { sendToProvider }: ConfiguredDeployment,
  jwksUri: string,
): Promise<IssuerKeys> {
  const response = await sendToProvider(jwksUri).catch((error: NoResponseError) => error);
  if (!('status' in response)) return { failure: response.message, remedy: response.remedy };
  const { keys } = jsonObject(response) ?? {};
  return Array.isArray(keys) && keys.length > 0
    ? { keys }
    : { failure: `the response is ${describeResponse(response)}` };
}

async function keysForWorkloads(
  { settings: { forwardProxy } }: ConfiguredDeployment,
  issuer: TrustedIssuer,
): Promise<IssuerKeys> {
  try {
    // Without workloads, the address is in the settings, so it may be anywhere.
    const isAnywhere = issuer.privateNetwork || issuer.workloads.length === 0;
    const reachable = { ...issuer, privateNetwork: isAnywhere };
    const { keySet } = await fetchIssuerKeys(reachable, forwardProxy);
    return { keys: keySet.keys };
  } catch (error) {
    const fault = tlsFault(error);
    if (fault)
      return {
        failure: `the host ${fault.what}`,
        remedy: 'set caFile of the issuer to the certificates of its authority',
      };
    if (error instanceof AddressNotPublic)
      return {
        failure: error.message,
        remedy: 'set privateNetwork: true of the issuer, if it is in your own network',
      };
    return { failure: rootMessage(error) };
  }
}

const EMPTY_EXPORT = JSON.stringify({ resourceSpans: [] });
const DROPPED = 'traces are dropped; requests are answered nevertheless';

/** Sends an empty export (OTLP over HTTP). Never quotes the response, because it may contain the secret headers. */
export async function checkTraceCollector({
  settings: { traces },
  sendVerified,
}: ConfiguredDeployment): Promise<Findings> {
  if (!traces) return undefined;
  const finding = findingAbout('traces', new URL(traces.url).origin);
  const headers = { ...traces.headers, 'content-type': 'application/json' };
  try {
    const { status } = await sendVerified(traces.url, {
      method: 'POST',
      headers,
      body: EMPTY_EXPORT,
    });
    if (status >= 200 && status < 300) return finding.ok('the collector accepts traces');
    const what = `the collector responds with ${status} to traces`;
    return finding.warning({ what, why: DROPPED, remedy: collectorRemedy(status) });
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error;
    const what = `the collector cannot be reached: ${error.message}`;
    const remedy =
      error.remedy ?? 'check OTEL_EXPORTER_OTLP_ENDPOINT, which this command needs as well';
    return finding.warning({ what, why: DROPPED, remedy });
  }
}

function collectorRemedy(status: number): string {
  if (status === 401 || status === 403)
    return 'check OTEL_EXPORTER_OTLP_HEADERS, which this command needs as well';
  if (status === 415) return 'configure the collector to accept OTLP over HTTP with JSON';
  return 'check the address: OTEL_EXPORTER_OTLP_ENDPOINT has no /v1/traces at its end, and must not be the gRPC address';
}
