// Whether we know a client id that a request or a token names.
import { type Client, errors, type Provider } from 'oidc-provider';

/** Undefined also if the metadata document of the client is not known, or is no longer accepted. Rejects if that cannot be told now. */
export async function findKnownClient(provider: Provider, id: string): Promise<Client | undefined> {
  try {
    return await provider.Client.find(id);
  } catch (error) {
    const isUnknown =
      error instanceof errors.InvalidClient || error instanceof errors.InvalidClientMetadata;
    if (isUnknown) return undefined;
    throw error;
  }
}
