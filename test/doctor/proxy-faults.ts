// Faults between the internet and Gatehouse: proxies, what they change, certificates and clocks.
import { makeCertificate } from '../authorization-server/metadata-documents/certificate.ts';
import type { GoodDeployment } from './good-deployment.ts';
import type { Passed } from './tls-proxy.ts';
import type { Fault } from './fault.ts';

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

const outward = (change: (answer: Passed) => void) => (good: GoodDeployment) =>
  good.proxies.auth.misbehave({ outward: change });
const certificate =
  (name: string, days: { from: number; until: number }) => (good: GoodDeployment) =>
    good.proxies.auth.present(makeCertificate(name, days));

export const PROXY_FAULTS: Fault[] = [
  {
    fault: 'a proxy that changes Host',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers.host = '127.0.0.1:4000') }),
    found: ['host'],
    says: /arrive with the Host 127\.0\.0\.1:4000/,
  },
  {
    fault: 'a proxy that leaves X-Forwarded-For alone',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({
        inward: (headers) => {
          headers['x-forwarded-for'] = String(headers['x-forwarded-for']).split(', ')[0];
        },
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 0 added/,
  },
  {
    fault: 'one proxy more than the settings say',
    plant: ({ proxies }) =>
      proxies.resource.misbehave({
        inward: (headers) => void (headers['x-forwarded-for'] += ', 10.0.0.7'),
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 2 added/,
  },
  {
    fault: 'a hop without TLS',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers['x-forwarded-proto'] = 'http') }),
    found: ['forwarded'],
    says: /plain http/,
  },
  {
    fault: 'an issuer that is not the one of the settings',
    plant: outward((answer) => {
      if (answer.path !== WELL_KNOWN || answer.method !== 'GET') return;
      const document = JSON.parse(answer.body);
      answer.body = JSON.stringify({ ...document, issuer: 'https://other.example.com' });
    }),
    found: ['issuer'],
    says: /issuer is https:\/\/other\.example\.com and should be https:\/\/localhost/,
  },
  {
    fault: 'a resource that names another authorization server',
    plant: ({ proxies, authUrl }) =>
      proxies.resource.misbehave({
        outward: (answer) => {
          answer.body = answer.body.replaceAll(authUrl, `${authUrl}/`);
        },
      }),
    found: ['issuer'],
    says: /authorization_servers is .*\/ and should be/,
  },
  {
    fault: 'a token endpoint at another address',
    plant: outward((answer) => {
      answer.body = answer.body.replace(/https:(\/\/[^"]+\/oauth\/token")/, 'http:$1');
    }),
    found: ['issuer'],
    says: /token_endpoint is http:/,
  },
  {
    fault: 'a proxy that answers /.well-known/ itself',
    plant: outward((answer) => {
      if (!answer.path.startsWith('/.well-known/openid')) return;
      Object.assign(answer, { status: 200, body: '<html></html>' });
      answer.headers['content-type'] = 'text/html';
    }),
    found: ['discovery'],
    says: /200 and text\/html in place of a plain 404/,
  },
  {
    fault: 'a challenge that is taken away',
    plant: ({ proxies }) =>
      proxies.resource.misbehave({
        outward: ({ headers }) => delete headers['www-authenticate'],
      }),
    found: ['challenge'],
    says: /WWW-Authenticate is missing/,
  },
  {
    fault: 'preflights that are refused',
    plant: outward((answer) => {
      if (answer.method === 'OPTIONS') answer.status = 405;
    }),
    found: ['cors'],
    says: /preflight is answered with 405/,
  },
  {
    fault: 'Access-Control headers twice',
    plant: outward(({ headers }) => {
      if (headers['access-control-allow-origin'])
        headers['access-control-allow-origin'] = '*, https://inspector.example';
    }),
    found: ['cors'],
    says: /Access-Control-Allow-Origin is \*, https/,
  },
  {
    fault: 'cookies without Secure',
    plant: outward(({ headers }) => {
      headers['set-cookie'] &&= headers['set-cookie'].map((cookie) =>
        cookie.replace(/; secure/i, ''),
      );
    }),
    found: ['cookies'],
    says: /cookie __Host-gatehouse-account is not Secure/,
  },
  {
    fault: 'security headers that are taken away',
    plant: outward(({ headers }) => delete headers['strict-transport-security']),
    found: ['headers'],
    says: /Strict-Transport-Security is missing/,
  },
  {
    fault: 'a clock that is five minutes behind',
    plant: outward(({ headers }) => {
      headers.date = new Date(Date.now() - 300_000).toUTCString();
    }),
    found: ['clock'],
    says: /(299|300|301) s behind/,
  },
  {
    fault: 'a certificate that has expired',
    plant: certificate('localhost', { from: -90, until: -2 }),
    found: ['certificate'],
    says: /expired on/,
  },
  {
    fault: 'a certificate that expires soon, for which nobody vouches',
    plant: certificate('localhost', { from: -80, until: 5.5 }),
    found: ['certificate'],
    says: /expires in 5 days/,
  },
  {
    fault: 'a certificate for another name',
    plant: certificate('auth.example.com', { from: -1, until: 60 }),
    found: ['certificate'],
    says: /is for CN=auth\.example\.com, not for localhost/,
  },
  {
    fault: 'a proxy without Gatehouse behind it',
    plant: ({ proxies }) => proxies.resource.misbehave({ target: () => 1 }),
    found: ['reach'],
    says: /answers 502 in place of Gatehouse/,
  },
  {
    fault: 'the management API at the public address',
    plant: ({ proxies, management }) =>
      proxies.auth.misbehave({
        inward: (headers, path) => {
          if (path.startsWith('/api/')) headers.host = `127.0.0.1:${management}`;
        },
        target: (path) => (path.startsWith('/api/') ? management : undefined),
      }),
    found: ['management'],
    says: /passes the management API on/,
  },
];
