// What browsers ask before they let a web app in (CORS, Fetch section 4.8), at every address such an app calls.
import { ENDPOINTS, METADATA_PATH } from '../authorization-server/metadata.ts';
import { METADATA_PREFIX } from '../resource-server/metadata.ts';
import type { Answer } from './ask.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, wordsOf } from './finding.ts';

const ORIGIN = 'https://inspector.example';
const WANTED = ['authorization', 'content-type', 'mcp-protocol-version'];

export async function preflightFindings(deployment: Deployment): Promise<Finding[]> {
  const { authUrl, resourceUrl } = deployment;
  const asked: [url: string, method: string][] = [
    [authUrl + METADATA_PATH, 'GET'],
    [resourceUrl + METADATA_PREFIX, 'GET'],
    [authUrl + ENDPOINTS.jwks, 'GET'],
    [authUrl + ENDPOINTS.registration, 'POST'],
    [authUrl + ENDPOINTS.token, 'POST'],
    [authUrl + ENDPOINTS.revocation, 'POST'],
  ];
  return Promise.all(asked.map(([url, method]) => preflight(deployment, url, method)));
}

async function preflight({ ask }: Deployment, url: string, method: string): Promise<Finding> {
  const answer = await ask(url, {
    method: 'OPTIONS',
    headers: {
      origin: ORIGIN,
      'access-control-request-method': method,
      'access-control-request-headers': WANTED.join(','),
    },
  });
  const read = method === 'GET' ? await ask(url, { headers: { origin: ORIGIN } }) : undefined;
  const words = wordsOf('cors', url);
  const fault = preflightFault(answer) ?? (read && originFault(read));
  if (fault === undefined) return words.ok('web apps may ask');
  return words.problem({
    what: fault,
    why: 'browsers keep apps that run on web pages from connecting',
    remedy:
      'have the proxy pass OPTIONS on and neither add nor take away Access-Control headers: Gatehouse sends them',
  });
}

function preflightFault(answer: Answer): string | undefined {
  if (answer.status !== 200 && answer.status !== 204)
    return `a preflight is answered with ${answer.status}`;
  const allowed = (answer.header('access-control-allow-headers') ?? '')
    .toLowerCase()
    .split(/[,\s]+/);
  const missing = WANTED.filter((name) => !allowed.includes(name) && !allowed.includes('*'));
  const fault = originFault(answer);
  if (fault !== undefined || missing.length === 0) return fault;
  return `a preflight does not allow the header ${missing.join(', ')}`;
}

/** Two proxies that each add the header make a list of it, which browsers refuse. */
function originFault(answer: Answer): string | undefined {
  const origin = answer.header('access-control-allow-origin');
  if (origin === '*' || origin === ORIGIN) return undefined;
  return `Access-Control-Allow-Origin is ${origin ?? 'missing'}`;
}
