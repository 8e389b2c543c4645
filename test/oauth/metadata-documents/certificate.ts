// Creates certificates (RFC 5280) for test hosts, self-signed or of an authority.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';

export type Certificate = { key: string; cert: string };

const DAY_MS = 86_400_000;
const ECDSA_WITH_SHA256 = sequence(Buffer.from('06082a8648ce3d040302', 'hex'));
const COMMON_NAME = Buffer.from('0603550403', 'hex');

/** `name` may be a wildcard. Valid from a day ago until a day from now by default; `days` are relative to now. */
export function makeCertificate(
  name: string,
  days: { from: number; until: number } = { from: -1, until: 1 },
  authority?: Certificate & { name: string },
): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [subject, issuer] = [name, authority?.name ?? name].map((text) =>
    sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(text))))),
  ) as [Buffer, Buffer];
  const content = sequence(
    der(0x02, Buffer.from([1])),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(utcTime(days.from * DAY_MS), utcTime(days.until * DAY_MS)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
  );
  const signer = authority ? createPrivateKey(authority.key) : privateKey;
  const signature = der(0x03, Buffer.from([0]), sign('sha256', content, signer));
  const body = sequence(content, ECDSA_WITH_SHA256, signature).toString('base64');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${body.replace(/.{64}(?!$)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  };
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts);
}

/** Tag, length, contents (ITU-T X.690 section 8.1). */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const contents = Buffer.concat(parts);
  const { length } = contents;
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), contents]);
}

function utcTime(shift: number): Buffer {
  const iso = new Date(Date.now() + shift).toISOString();
  return der(0x17, Buffer.from(`${iso.replace(/\D/g, '').slice(2, 14)}Z`));
}
