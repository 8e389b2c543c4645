// How clients lie in the store: those that registered themselves, and the last good copies of client ID metadata documents.

/** `usedAt` in seconds; absent until the first consent was completed. */
export type Used = { usedAt?: number };

/** Names as in RFC 7591. */
export type ClientMetadata = {
  client_name?: string | undefined;
  redirect_uris?: readonly string[] | undefined;
};

export type StoredClient<Metadata extends ClientMetadata = ClientMetadata> = Used & {
  metadata: Metadata;
};

/** `freshUntil` in seconds: from then on the document is fetched again before anybody new is asked to trust it. */
export type StoredDocument<Document extends ClientMetadata = ClientMetadata> = Used & {
  document: Document;
  freshUntil: number;
};

/** What we call a client that registered itself. Those of the settings may look alike, so they are looked for first. */
export const CLIENT_ID = /^[\w-]{16,64}$/;

export const clientKey = (id: string) => `client:${id}`;
export const documentKey = (url: string) => `metadata-document:${url}`;
