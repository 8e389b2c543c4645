// Reads tools with the operator's own credential, where the upstream has one and no `headers`.
import { isReadByOperator, OPERATOR } from '../../credentials/operator.ts';
import { openPersonCredentials } from '../../credentials/use.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { DiscoveryError } from './discovery-faults.ts';

export type OperatorCredential = {
  /** Calls `read` with the header and the token of the credential, if there is one, and once more with renewed ones after the upstream refused them. */
  use<Result>(
    read: (header: Readonly<Record<string, string>>, token?: string) => Promise<Result>,
  ): Promise<Result>;
  /** Calls the listener when the credential changes, until the returned function is called. */
  onChange(listener: () => void): () => void;
};

export async function openOperatorCredential(
  settings: Settings,
  services: Services,
  upstream: Upstream,
): Promise<OperatorCredential> {
  const { credential } = upstream;
  if (!credential || !isReadByOperator(upstream))
    return { use: (read) => read({}), onChange: () => () => undefined };
  const credentials = await openPersonCredentials(settings, services, { ...upstream, credential });
  return {
    async use(read) {
      const found = await credentials.of(OPERATOR);
      if (!('header' in found)) return read({});
      const headerOf = ({ name, value }: { name: string; value: string }) => ({ [name]: value });
      try {
        return await read(headerOf(found.header), found.token);
      } catch (error) {
        if (!(error instanceof DiscoveryError) || error.fault !== 'rejected') throw error;
        const renewed = await credentials.renewed(OPERATOR, found.token);
        if (!('header' in renewed)) throw error;
        return read(headerOf(renewed.header), renewed.token);
      }
    },
    onChange: (listener) => credentials.onChange(OPERATOR, listener),
  };
}
