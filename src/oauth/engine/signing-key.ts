import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import type { JWK } from 'jose';
import { ExternalSigningKey } from 'oidc-provider';

/**
 * Signs with ES256 in this thread, for the engine's hook for signatures that are made elsewhere. Web Crypto, which the engine calls otherwise,
 * takes three times the processor time, because each signature is a task for other threads.
 */
export class LocalSigningKey extends ExternalSigningKey {
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;

  /** `jwk` is a private key with `kid` and `alg`. */
  constructor(jwk: JWK) {
    super();
    this.#privateKey = createPrivateKey({ key: jwk, format: 'jwk' });
    this.#publicKey = createPublicKey(this.#privateKey);
    Object.assign(this, { kid: jwk.kid, alg: jwk.alg });
  }

  override keyObject(): KeyObject {
    return this.#publicKey;
  }

  /** Returns R and S, 32 bytes each (RFC 7518 section 3.4). */
  override sign(data: Uint8Array): Buffer {
    return joinedNumbers(sign('sha256', data, this.#privateKey));
  }
}

const NUMBER_BYTES = 32;
/** Of a sequence or an integer: its tag and its length. */
const HEADER_BYTES = 2;

/**
 * R and S of a signature in DER (RFC 3279 section 2.2.3), whose integers have a leading zero if their first bit is set, and none otherwise. Node
 * returns them joined too, but the options for that take longer than the signature.
 */
function joinedNumbers(der: Buffer): Buffer {
  const joined = Buffer.alloc(2 * NUMBER_BYTES);
  let at = HEADER_BYTES;
  for (const end of [NUMBER_BYTES, 2 * NUMBER_BYTES]) {
    const begin = at + HEADER_BYTES;
    at = begin + der.readUInt8(begin - 1);
    const number = der.subarray(Math.max(begin, at - NUMBER_BYTES), at);
    joined.set(number, end - number.length);
  }
  return joined;
}
