// Servers whose TLS is misconfigured, each with what explains it.
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Server } from 'node:net';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';

export type TlsFaultServer = {
  fault: string;
  open: () => Server;
  what: RegExp;
  remedy: RegExp;
};

const DAYS = { from: -1, until: 60 };
const answer: RequestListener = (_req, res) => void res.end('{}');
const AUTHORITY = 'Example Internal Authority';
const root = { name: AUTHORITY, ...makeCertificate(AUTHORITY, DAYS) };
const ofAuthority = (name: string) => makeCertificate(name, DAYS, root);
const https = (certificate: { key: string; cert: string }, more: object = {}) =>
  createHttpsServer({ ...certificate, ...more }, answer);

export const TLS_FAULTS: TlsFaultServer[] = [
  {
    fault: 'plain http behind an https address',
    open: () => createHttpServer(answer),
    what: /responds without TLS/,
    remedy: /terminate TLS at the proxy/,
  },
  {
    fault: 'a plain Redis behind a TLS address',
    open: () =>
      createServer((socket) => socket.once('data', () => socket.end('-ERR unknown command\r\n'))),
    what: /responds without TLS/,
    remedy: /correct the scheme/,
  },
  {
    fault: 'a certificate of a private authority',
    open: () => https(ofAuthority('localhost')),
    what: /its authority is private/,
    remedy: /NODE_EXTRA_CA_CERTS/,
  },
  {
    fault: 'a certificate of a private authority with its chain',
    open: () => {
      const { key, cert } = ofAuthority('localhost');
      return https({ key, cert: cert + root.cert });
    },
    what: /its authority is private/,
    remedy: /NODE_EXTRA_CA_CERTS/,
  },
  {
    fault: 'a self-signed certificate',
    open: () => https(makeCertificate('localhost', DAYS)),
    what: /self-signed/,
    remedy: /NODE_EXTRA_CA_CERTS/,
  },
  {
    fault: 'an expired certificate',
    open: () => https(makeCertificate('localhost', { from: -9, until: -2 })),
    what: /an expired certificate/,
    remedy: /renew/,
  },
  {
    fault: 'a certificate that is not valid yet',
    open: () => https(makeCertificate('localhost', { from: 2, until: 9 })),
    what: /not valid yet/,
    remedy: /clock/,
  },
  {
    fault: 'a TLS version that is too old',
    open: () =>
      https(makeCertificate('localhost', DAYS), {
        minVersion: 'TLSv1',
        maxVersion: 'TLSv1.1',
        ciphers: 'DEFAULT@SECLEVEL=0',
      }),
    what: /no TLS version/,
    remedy: /TLS 1\.2/,
  },
  {
    fault: 'a connection that is closed during the handshake',
    open: () => createServer((socket) => socket.once('data', () => socket.end())),
    what: /closes the connection during the TLS handshake/,
    remedy: /SNI/,
  },
  {
    fault: 'a handshake that is refused',
    open: () =>
      https(makeCertificate('localhost', DAYS), {
        maxVersion: 'TLSv1.2',
        ciphers: 'ECDHE-RSA-AES128-SHA',
      }),
    what: /refuses the TLS handshake/,
    remedy: /cipher/,
  },
];

/** A certificate for another name, of an authority that the caller trusts. */
export const OTHER_NAME = {
  authority: root.cert,
  open: () => https(ofAuthority('other.example.com')),
};
