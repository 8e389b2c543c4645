// Explains why a TLS connection to a server failed, in words, from the error codes of Node and OpenSSL.
import { causesOf, type ErrorWithCode } from './error-causes.ts';

/** `what` is a predicate whose subject is the server. `remedy` is a clause. Neither has a capital letter at the start or a full stop. */
export type TlsFault = { what: string; remedy: string };

const TRUST_IT =
  'set NODE_EXTRA_CA_CERTS to a file with the certificate of that authority wherever this program runs, and restart it';

const PLAIN_HTTP: TlsFault = {
  what: 'responds without TLS: plain text at an address that needs TLS',
  remedy:
    'terminate TLS at the proxy in front of this port, or correct the scheme or the port of the address',
};
const PRIVATE_AUTHORITY: TlsFault = {
  what: 'has a certificate that this machine does not trust: its authority is private, or unknown here',
  remedy: `if the authority is your own, ${TRUST_IT}; otherwise use a certificate of a public authority`,
};
const OLD_VERSION: TlsFault = {
  what: 'offers no TLS version that this machine accepts',
  remedy: 'enable TLS 1.2 or 1.3 there',
};
const REFUSED: TlsFault = {
  what: 'refuses the TLS handshake',
  remedy:
    'check there that a certificate is configured for this name (SNI), that a common cipher is enabled, and that no client certificate is required',
};
const CLOSED: TlsFault = {
  what: 'closes the connection during the TLS handshake',
  remedy:
    'check that this port speaks TLS, that a certificate is configured there for this name (SNI), and that no firewall interrupts the connection',
};

/** By code, or by the reason of OpenSSL in the message: Node reports some handshake errors only as EPROTO. */
const FAULTS: readonly [code: RegExp, fault: TlsFault][] = [
  [/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|BAD_RECORD_TYPE/, PLAIN_HTTP],
  [/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|VERSION_TOO_LOW|NO_PROTOCOLS_AVAILABLE/, OLD_VERSION],
  [
    /CERT_HAS_EXPIRED/,
    {
      what: 'has an expired certificate',
      remedy: 'renew the certificate and reload the server; if it is new, check the clock here',
    },
  ],
  [
    /CERT_NOT_YET_VALID/,
    {
      what: 'has a certificate that is not valid yet',
      remedy: 'check the clock of this machine, and of the one that issued the certificate',
    },
  ],
  [
    /DEPTH_ZERO_SELF_SIGNED_CERT/,
    {
      what: 'has a self-signed certificate, which this machine does not trust',
      remedy:
        'use a certificate of an authority, or set NODE_EXTRA_CA_CERTS to a file with this certificate wherever this program runs, and restart it',
    },
  ],
  [
    /UNABLE_TO_VERIFY_LEAF_SIGNATURE/,
    {
      what: 'has a certificate that this machine does not trust: it sends no intermediate certificate, or its authority is private',
      remedy: `configure it to send the whole chain (fullchain.pem); if the authority is your own, ${TRUST_IT}`,
    },
  ],
  [/SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER|CERT_UNTRUSTED|INVALID_CA/, PRIVATE_AUTHORITY],
  [/^(CERT_|UNABLE_TO_|CRL_)/, PRIVATE_AUTHORITY],
  [/^ERR_SSL_|ALERT|UNRECOGNIZED_NAME/, REFUSED],
];

const CLOSED_IN_HANDSHAKE = /before secure TLS connection was established/;

/** Returns undefined if neither the error nor one of its causes is about TLS. `isHandshake`: the error ended a TLS handshake. */
export function tlsFault(error: unknown, isHandshake = false): TlsFault | undefined {
  for (const each of causesOf(error)) {
    const { code = '', message } = each;
    if (/^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/.test(code)) return otherName(each);
    if (CLOSED_IN_HANDSHAKE.test(message) || (isHandshake && code === 'ECONNRESET')) return CLOSED;
    const reason = code === 'EPROTO' ? reasonOf(message) : code;
    const found = FAULTS.find(([pattern]) => pattern.test(reason));
    if (found) return found[1];
    if (code === 'EPROTO') return REFUSED;
  }
  return undefined;
}

type CertificateError = ErrorWithCode & {
  cert?: { subjectaltname?: string; subject?: { CN?: string | string[] } };
};

/** `write EPROTO 00A1…:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:…` */
function reasonOf(message: string): string {
  return message.toUpperCase().replaceAll(' ', '_');
}

const MAX_NAMES_LENGTH = 200;

function otherName({ cert }: CertificateError): TlsFault {
  const names = cert?.subjectaltname ?? [cert?.subject?.CN ?? []].flat().join(', ');
  const shown = names.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, MAX_NAMES_LENGTH);
  return {
    what: `has a certificate for another name${shown === '' ? '' : ` (${shown})`}`,
    remedy:
      'use a name that the certificate contains, or configure a certificate for this name there (server_name, SNI)',
  };
}
