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
    return sign('sha256', data, { key: this.#privateKey, dsaEncoding: 'ieee-p1363' });
  }
}
