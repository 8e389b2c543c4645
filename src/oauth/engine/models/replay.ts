import type { Adapter } from 'oidc-provider';
import { consumeProof } from '../../../dpop/proof.ts';
import { consumeAssertion } from '../client-keys.ts';
import { presentedProof, proofReused } from '../dpop.ts';
import { engineRequest, requireContext } from '../engine-request.ts';
import type { GrantModelOptions } from './options.ts';

/**
 * The engine's `ReplayDetection` model. Exactly one of concurrent requests with an assertion or a proof passes. `find` returns nothing, so that
 * the engine always calls `upsert`: first for the assertion of the client, as the last step of its authentication, later for the DPoP proof. The
 * engine's id of a proof depends on the client; ours is the same for every grant type.
 */
export function replayModel({ store }: GrantModelOptions): Partial<Adapter> {
  return {
    async upsert(_id, _payload, expiresIn = 0) {
      const ctx = requireContext();
      const request = engineRequest(ctx);
      if (ctx.oidc.client?.clientAuthMethod === 'private_key_jwt' && !request.assertionUsed) {
        await consumeAssertion(store, ctx, expiresIn);
        request.assertionUsed = true;
        return;
      }
      const proof = await presentedProof(ctx);
      if (!proof) throw new Error('the engine used ReplayDetection for something unknown');
      if (!(await consumeProof(store, proof))) throw proofReused();
    },
  };
}
