/** A host name with a dot, no port, no query. */
const CLIENT_ID_URL = /^https:\/\/([a-z0-9-]+\.)+[a-z][a-z0-9-]*\/[^\s?#@\\]+$/;
const MAX_LENGTH = 500;

/** Whether a client id is the address of a metadata document that may be fetched. */
export function isClientIdUrl(id: string): boolean {
  return CLIENT_ID_URL.test(id) && id.length <= MAX_LENGTH;
}
