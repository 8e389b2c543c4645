// Faults of proxies, certificates and clocks.
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import type { GoodDeployment } from './good-deployment.ts';
import type { ProxiedResponse } from './tls-proxy.ts';
import type { Fault } from './fault.ts';

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

/** They run only if both addresses reach Gatehouse. */
const OUTSIDE_CHECKS = [
  'challenge',
  'cookies',
  'cors',
  'discovery',
  'edge',
  'forwarded',
  'headers',
  'host',
  'issuer',
  'management',
  'reach',
  'ready',
  'streams',
];

const outward = (change: (response: ProxiedResponse) => void) => (good: GoodDeployment) =>
  good.proxies.auth.misbehave({ outward: change });
const certificate =
  (name: string, days: { from: number; until: number }) => (good: GoodDeployment) =>
    good.proxies.auth.present(makeCertificate(name, days));

export const PROXY_FAULTS: Fault[] = [
  {
    fault: 'a proxy that changes Host',
    inject: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers.host = '127.0.0.1:4000') }),
    found: ['host'],
    hides: OUTSIDE_CHECKS,
    says: /arrive with the Host 127\.0\.0\.1:4000/,
  },
  {
    fault: 'a proxy that does not add to X-Forwarded-For',
    inject: ({ proxies }) =>
      proxies.auth.misbehave({
        inward: (headers) => {
          headers['x-forwarded-for'] = String(headers['x-forwarded-for']).split(', ')[0];
        },
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 0 added/,
  },
  {
    fault: 'a proxy that keeps streams back until they end',
    inject: ({ proxies }) => proxies.resource.misbehave({ buffers: true }),
    found: ['streams'],
    says: /the first byte of a stream arrives after \d+ ms, and not before its end/,
  },
  {
    fault: 'one proxy more than in the settings',
    inject: ({ proxies }) =>
      proxies.resource.misbehave({
        inward: (headers) => void (headers['x-forwarded-for'] += ', 10.0.0.7'),
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 2 added/,
  },
  {
    fault: 'an edge that refuses the user agents of AI apps',
    inject: ({ proxies }) =>
      proxies.resource.misbehave({
        // The refusal of another name stands for that of an edge.
        inward: (headers) => {
          if (/Claude-User/.test(headers['user-agent'] ?? '')) headers.host = 'blocked.example';
        },
      }),
    found: ['edge'],
    says: /Claude-User gets 421, and another program .*; asked from inside/,
  },
  {
    fault: 'a hop without TLS',
    inject: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers['x-forwarded-proto'] = 'http') }),
    found: ['forwarded'],
    says: /plain http/,
  },
  {
    fault: 'processes with different settings',
    inject: outward((response) => {
      if (response.path === '/readyz')
        response.body = JSON.stringify({ ...JSON.parse(response.body), settings: 'differ' });
    }),
    found: ['ready'],
    says: /the processes have different settings/,
  },
  {
    fault: 'an issuer that differs from the settings',
    inject: outward((response) => {
      if (response.path !== WELL_KNOWN || response.method !== 'GET') return;
      const document = JSON.parse(response.body);
      response.body = JSON.stringify({ ...document, issuer: 'https://other.example.com' });
    }),
    found: ['issuer'],
    says: /issuer is https:\/\/other\.example\.com and should be https:\/\/localhost/,
  },
  {
    fault: 'resource metadata with another authorization server',
    inject: ({ proxies, authUrl }) =>
      proxies.resource.misbehave({
        outward: (response) => {
          response.body = response.body.replaceAll(authUrl, `${authUrl}/`);
        },
      }),
    found: ['issuer'],
    says: /authorization_servers is .*\/ and should be/,
  },
  {
    fault: 'a token endpoint at another address',
    inject: outward((response) => {
      response.body = response.body.replace(/https:(\/\/[^"]+\/oauth\/token")/, 'http:$1');
    }),
    found: ['issuer'],
    says: /token_endpoint is http:/,
  },
  {
    fault: 'a proxy that answers /.well-known/ itself',
    inject: outward((response) => {
      if (!response.path.startsWith('/.well-known/openid')) return;
      Object.assign(response, { status: 200, body: '<html></html>' });
      response.headers['content-type'] = 'text/html';
    }),
    found: ['discovery'],
    says: /200 and text\/html instead of a plain 404/,
  },
  {
    fault: 'a proxy that removes WWW-Authenticate',
    inject: ({ proxies }) =>
      proxies.resource.misbehave({
        outward: ({ headers }) => delete headers['www-authenticate'],
      }),
    found: ['challenge'],
    says: /WWW-Authenticate is missing/,
  },
  {
    fault: 'a proxy that refuses preflights',
    inject: outward((response) => {
      if (response.method === 'OPTIONS') response.status = 405;
    }),
    found: ['cors'],
    says: /response to a preflight is 405/,
  },
  {
    fault: 'a proxy that duplicates Access-Control headers',
    inject: outward(({ headers }) => {
      if (headers['access-control-allow-origin'])
        headers['access-control-allow-origin'] = '*, https://inspector.example';
    }),
    found: ['cors'],
    says: /Access-Control-Allow-Origin is \*, https/,
  },
  {
    fault: 'a proxy that removes Secure from cookies',
    inject: outward(({ headers }) => {
      headers['set-cookie'] &&= headers['set-cookie'].map((cookie) =>
        cookie.replace(/; secure/i, ''),
      );
    }),
    found: ['cookies'],
    says: [
      /cookie __Host-gatehouse-account is not Secure/,
      /cookie __Host-gatehouse-account\.sig is not Secure/,
    ],
  },
  {
    fault: 'a proxy that removes security headers',
    inject: outward(({ headers }) => delete headers['strict-transport-security']),
    found: ['headers'],
    says: /Strict-Transport-Security is missing/,
  },
  {
    fault: 'a proxy that adds a referrer policy',
    inject: outward(({ headers }) => {
      headers['referrer-policy'] = `${String(headers['referrer-policy'])}, no-referrer`;
    }),
    found: ['headers'],
    says: /Referrer-Policy is no-referrer/,
  },
  {
    fault: 'a clock that is five minutes behind',
    inject: outward(({ headers }) => {
      headers.date = new Date(Date.now() - 300_000).toUTCString();
    }),
    found: ['clock'],
    // A response takes some seconds on a busy machine.
    says: /(2[4-9]\d|30[01]) s behind/,
  },
  {
    fault: 'an expired certificate',
    inject: certificate('localhost', { from: -90, until: -2 }),
    found: ['certificate'],
    says: /expired on/,
  },
  {
    fault: 'an untrusted certificate that expires soon',
    inject: certificate('localhost', { from: -80, until: 5.5 }),
    found: ['certificate'],
    says: [/expires in 5 days/, /not issued by a trusted authority/],
  },
  {
    fault: 'a certificate for another name',
    inject: certificate('auth.example.com', { from: -1, until: 60 }),
    found: ['certificate'],
    says: [/is for CN=auth\.example\.com, not for localhost/, /not issued by a trusted authority/],
  },
  {
    fault: 'a proxy that does not reach Gatehouse',
    inject: ({ proxies }) => proxies.resource.misbehave({ target: () => 1 }),
    found: ['reach'],
    hides: OUTSIDE_CHECKS,
    says: /the proxy responds with 502, because it does not reach Gatehouse/,
  },
  {
    fault: 'the management API at the public address',
    inject: ({ proxies, management }) =>
      proxies.auth.misbehave({
        inward: (headers, path) => {
          if (path.startsWith('/api/')) headers.host = `127.0.0.1:${management}`;
        },
        target: (path) => (path.startsWith('/api/') ? management : undefined),
      }),
    found: ['management'],
    says: /forwards the management API/,
  },
];
