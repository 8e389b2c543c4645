// The certificate of a public address, as clients judge it: when it is valid, for which name, and who vouches for it.
import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import type { Deployment } from './deployment.ts';
import { type Finding, orOk, type Words, wordsOf } from './finding.ts';

const DAY_MS = 86_400_000;
/** Those that renew by themselves do it earlier. */
const SOON = 14;
const PATIENCE_MS = 5000;

/** What a connection said about itself; `fault` is Node's code for why it would not have been trusted. */
export type Presented = { certificate: PeerCertificate; fault?: string };

const OF_TIME_OR_NAME =
  /^(CERT_HAS_EXPIRED|CERT_NOT_YET_VALID|ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/;

export async function certificateFindings(deployment: Deployment): Promise<Finding[]> {
  const { authUrl, resourceUrl } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  return (await Promise.all(urls.map((url) => findingsAt(deployment, url)))).flat();
}

async function findingsAt({ now, signal }: Deployment, url: string): Promise<Finding[]> {
  const words = wordsOf('certificate', url);
  if (url.startsWith('http:')) return [words.ok('plain http, so there is no certificate')];
  try {
    return judge(words, new URL(url).hostname, await present(new URL(url), signal), now());
  } catch (error) {
    return [words.unknown(`no TLS connection: ${(error as Error).message}`)];
  }
}

function judge(
  words: Words,
  host: string,
  { certificate, fault }: Presented,
  now: number,
): Finding[] {
  const days = Math.floor((Date.parse(certificate.valid_to) - now) / DAY_MS);
  const findings = [
    ...timeFindings(words, certificate, days, now),
    ...nameFindings(words, host, certificate),
    ...chainFindings(words, fault),
  ];
  return orOk(findings, words.ok(`the certificate is good for ${days} days more`));
}

const REFUSED = 'apps and browsers refuse to connect';

function timeFindings(
  words: Words,
  { valid_from: from, valid_to: to }: PeerCertificate,
  days: number,
  now: number,
): Finding[] {
  if (Date.parse(from) > now)
    return [
      words.problem({
        what: `the certificate is valid from ${from} only`,
        why: REFUSED,
        remedy: 'check the clock of this machine and of the one that made the certificate',
      }),
    ];
  if (days < 0)
    return [
      words.problem({
        what: `the certificate expired on ${to}`,
        why: REFUSED,
        remedy:
          'renew it, have the proxy load the new one, and find out why it was not renewed by itself',
      }),
    ];
  if (days >= SOON) return [];
  return [
    words.warning({
      what: `the certificate expires in ${days} days, on ${to}`,
      why: `then ${REFUSED}; what renews certificates does it earlier, so it may have stopped`,
      remedy: 'renew it, and see whether the renewal runs',
    }),
  ];
}

function nameFindings(words: Words, host: string, certificate: PeerCertificate): Finding[] {
  if (!checkServerIdentity(host, certificate)) return [];
  const names = certificate.subjectaltname ?? `CN=${[certificate.subject.CN].flat().join(', ')}`;
  return [
    words.problem({
      what: `the certificate is for ${names}, not for ${host}`,
      why: REFUSED,
      remedy: `have the proxy present a certificate for ${host} (server_name, SNI)`,
    }),
  ];
}

function chainFindings(words: Words, fault: string | undefined): Finding[] {
  if (fault === undefined || OF_TIME_OR_NAME.test(fault)) return [];
  const isCut = fault === 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
  return [
    words.problem({
      what: isCut
        ? 'the proxy does not send the intermediate certificates'
        : `nobody who is trusted here vouches for the certificate (${fault})`,
      why: 'hosted apps refuse to connect, also where browsers help themselves',
      remedy: isCut
        ? 'have the proxy send the whole chain (fullchain.pem)'
        : 'use a certificate of a public authority; for one of your own, name it in NODE_EXTRA_CA_CERTS wherever it has to be trusted',
    }),
  ];
}

/** Connects whatever the certificate is, and sends nothing. */
function present({ hostname, port }: URL, signal: AbortSignal): Promise<Presented> {
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const servername = /^[\d.]+$|:/.test(host) ? '' : host;
    const to = { host, port: Number(port || 443), servername, rejectUnauthorized: false };
    const socket: TLSSocket = connect(to, () => {
      const certificate = socket.getPeerCertificate();
      // Node declares an Error and gives the code of one.
      const fault: unknown = socket.authorizationError;
      const code = fault instanceof Error ? (fault as NodeJS.ErrnoException).code : fault;
      resolve({ certificate, ...(code ? { fault: String(code) } : {}) });
      socket.destroy();
    });
    const end = (reason: Error) => {
      socket.destroy();
      reject(reason);
    };
    socket.setTimeout(PATIENCE_MS, () => end(new Error('no answer in time')));
    socket.on('error', end);
    signal.addEventListener('abort', () => end(new Error('no answer in time')), { once: true });
  });
}
