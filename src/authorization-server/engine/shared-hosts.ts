// Hosts where anybody may publish: an address there says nothing about who is behind it.

const SHARED = [
  'bitbucket.org',
  'cdn.jsdelivr.net',
  'codeberg.org',
  'docs.google.com',
  'drive.google.com',
  'dropbox.com',
  'dropboxusercontent.com',
  'firebasestorage.googleapis.com',
  'github.com',
  'githubusercontent.com',
  'gitlab.com',
  'huggingface.co',
  'pastebin.com',
  'storage.googleapis.com',
  'unpkg.com',
];
/** S3 with the bucket in the path, dual-stack and FIPS endpoints included. */
const SHARED_REGIONS = /^s3[.-]([a-z0-9-]+\.)*amazonaws\.com(\.cn)?$/;

/** Whether the host of this client id says who the client is. */
export function isIdentifiedByHost(clientId: string): boolean {
  return clientId.startsWith('https://') && !isShared(new URL(clientId).host);
}

function isShared(host: string): boolean {
  const isListed = SHARED.some((name) => host === name || host.endsWith(`.${name}`));
  return isListed || SHARED_REGIONS.test(host);
}
