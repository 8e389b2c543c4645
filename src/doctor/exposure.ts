// What should not be reachable from where people are: the management API.
import { lookup } from 'node:dns/promises';
import { isPublicAddress } from '../authorization-server/engine/guarded-fetch.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, orOk, wordsOf } from './finding.ts';

const API = '/api/v1/connectors';
const REMEDY =
  'keep it on this computer or in a private network, and reach it through a tunnel or a VPN';

export async function exposureFindings(deployment: Deployment): Promise<Finding[]> {
  const { authUrl, resourceUrl, settings } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  const throughProxy = (await Promise.all(urls.map((url) => apiAt(deployment, url)))).flat();
  const byName = settings ? await publicManagement(settings.managementUrl) : [];
  const words = wordsOf('management', settings?.managementUrl ?? authUrl);
  return orOk([...throughProxy, ...byName], words.ok('the management API is not on the internet'));
}

async function apiAt({ ask }: Deployment, url: string): Promise<Finding[]> {
  const { status } = await ask(url + API);
  if (status !== 401 && status !== 200) return [];
  return [
    wordsOf('management', url).problem({
      what: 'the proxy passes the management API on to the public address',
      why: 'only its key is left between anybody and every connect link',
      remedy: `have the proxy pass nothing to listen.management; ${REMEDY}`,
    }),
  ];
}

async function publicManagement(url: string): Promise<Finding[]> {
  if (isLoopbackUrl(url)) return [];
  const { hostname } = new URL(url);
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  const open = found.find(({ address }) => isPublicAddress(address));
  if (!open) return [];
  return [
    wordsOf('management', 'managementUrl').warning({
      what: `the management address ${url} leads to ${open.address}, which is on the internet`,
      why: 'only its key is left between anybody and every connect link',
      remedy: REMEDY,
    }),
  ];
}
