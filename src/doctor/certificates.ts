import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import { tlsFault } from '../tls-errors.ts';
import type { Deployment } from './deployment.ts';
import { findingAbout, type Findings, okIfNone } from './report.ts';

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

export async function checkCertificates(deployment: Deployment): Promise<Findings> {
  const { authUrl, resourceUrl } = deployment;
  const urls = [...new Set([authUrl, resourceUrl])];
  return Promise.all(urls.map((url) => checkCertificate(deployment, url)));
}

async function checkCertificate({ now, signal }: Deployment, url: string): Promise<Findings> {
  const finding = findingAbout('certificate', url);
  if (url.startsWith('http:')) return finding.ok('plain http, without a certificate');
  const host = new URL(url).hostname;
  let presented: PresentedCertificate;
  try {
    presented = await fetchCertificate(new URL(url), signal);
  } catch (error) {
    const tls = tlsFault(error, true);
    // The reachability of the address is a finding of its own.
    const reason = tls ? `the server ${tls.what}` : (error as Error).message;
    return finding.unknown(`no TLS connection: ${reason}`);
  }
  const { certificate, fault } = presented;
  const { valid_from: from, valid_to: to, issuer, subject, subjectaltname } = certificate;
  const isEarly = Date.parse(from) > now();
  const daysLeft = Math.floor((Date.parse(to) - now()) / DAY_MS);
  const isUntrusted = fault !== undefined && !PERIOD_OR_NAME_FAULT.test(fault);
  const lacksIntermediates =
    fault === 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' && namesIntermediate(certificate);
  const [authority] = [issuer.CN ?? issuer.O ?? 'a private one'].flat();
  return okIfNone(
    [
      isEarly &&
        finding.problem({
          what: `the certificate is not valid before ${from}`,
          why: REFUSED,
          remedy: 'check the clock of this machine and of the one that issued the certificate',
        }),
      !isEarly &&
        daysLeft < 0 &&
        finding.problem({
          what: `the certificate expired on ${to}`,
          why: REFUSED,
          remedy: 'renew it, reload the proxy, and find out why automatic renewal failed',
        }),
      !isEarly &&
        daysLeft >= 0 &&
        daysLeft < MIN_DAYS_LEFT &&
        finding.warning({
          what: `the certificate expires in ${daysLeft} days, on ${to}`,
          why: `then ${REFUSED}; automatic renewal happens earlier, so it may have stopped`,
          remedy: 'renew it, and check that automatic renewal runs',
        }),
      checkServerIdentity(host, certificate) !== undefined &&
        finding.problem({
          what: `the certificate is for ${subjectaltname ?? `CN=${[subject.CN].flat().join(', ')}`}, not for ${host}`,
          why: REFUSED,
          remedy: `configure the proxy to present a certificate for ${host} (server_name, SNI)`,
        }),
      isUntrusted &&
        finding.problem({
          what: lacksIntermediates
            ? 'the proxy does not send the intermediate certificates'
            : `the certificate is not issued by a trusted authority, but ${fault === 'DEPTH_ZERO_SELF_SIGNED_CERT' ? 'self-signed' : `by ${authority}`} (${fault})`,
          why: 'hosted apps refuse to connect, even if browsers accept it',
          remedy: lacksIntermediates
            ? 'configure the proxy to send the whole chain (fullchain.pem)'
            : 'use a certificate of a public authority, or add your own authority to NODE_EXTRA_CA_CERTS wherever it must be trusted',
        }),
    ],
    finding.ok(`the certificate is valid for ${daysLeft} more days`),
  );
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
