// Binds a consent form to what its page displayed.
import { createHmac } from 'node:crypto';
import { constantTimeEqual } from '../constant-time.ts';
import { createFormToken, type FormKeys, requireFormToken } from '../http/form-tokens.ts';
import type { KeyRing } from '../store/stored-keys.ts';
import { CONTENT_PARTS, type ContentPart } from './interaction.ts';
import type { ConsentRequest } from './load.ts';

/** The content on which the decision depends. If it has changed by the time of the approval, the page is shown again. */
export function displayedContent({
  client,
  raise,
  redirectUri,
  device,
  connector,
  account,
  levels,
  learned,
  requestsOfflineAccess,
}: ConsentRequest): PageContent {
  const offered = levels.map(({ level, tools }) => (tools ? [level, tools] : level));
  const parts: Record<ContentPart, unknown[]> = {
    app: [client, redirectUri ?? device?.payload.userCode ?? raise?.id, requestsOfflineAccess],
    connector: [connector.id, connector.name, ...(learned ? [learned] : [])],
    // The page has no address that is not verified.
    account: [account.id, account.name, account.emailVerified ? account.email : undefined],
    levels: raise ? [raise.level, ...offered] : offered,
  };
  return {
    accountId: account.id,
    parts: CONTENT_PARTS.map((part) => JSON.stringify(parts[part])),
  };
}

/** What a page displays, in the order of `CONTENT_PARTS`, and to which account. */
export type PageContent = { accountId: string; parts: string[] };

/**
 * Binds the consent form to its interaction, to the account and to the content of its page: a digest of each, then a MAC over the digests and
 * the uid. A page loaded twice has the same token, so both copies work.
 */
export function consentToken(keys: FormKeys, uid: string, content: PageContent): string {
  const account = accountDigest(keys, content.accountId);
  const digests = `${account}.${contentDigests(keys, content).join(DIGEST_SEPARATOR)}`;
  return `${digests}.${createFormToken(keys, consentContext(uid, digests))}`;
}

const DIGEST_SEPARATOR = '~';

function contentDigests(keys: FormKeys, { parts }: PageContent): string[] {
  return parts.map((text, index) => createFormToken(keys, `shown ${index}\n${text}`));
}

export type ConsentTokenClaims = {
  /** The first part of the content that is not what the form's page displayed. */
  changeTo: (content: PageContent) => ContentPart | undefined;
  /** Whether the form's page was displayed to this account. */
  isForAccount: (id: string) => boolean;
};

/** Throws 403 if the token was not issued for this interaction. */
export function requireConsentToken(keys: FormKeys, uid: string, token = ''): ConsentTokenClaims {
  const [account = '', content = '', mac] = token.split('.');
  const key = requireFormToken(keys, consentContext(uid, `${account}.${content}`), mac);
  const displayed = content.split(DIGEST_SEPARATOR);
  return {
    changeTo: (other) => {
      const digests = contentDigests([key], other);
      return CONTENT_PARTS.find((_, index) => digests[index] !== displayed[index]);
    },
    isForAccount: (id) => constantTimeEqual(account, accountDigest([key], id)),
  };
}

function consentContext(uid: string, digests: string): string {
  return `form\n${uid}\n${digests}`;
}

function accountDigest(keys: FormKeys, accountId: string): string {
  return createFormToken(keys, `account\n${accountId}`);
}

/** The unguessable id of the only grant that an interaction can create, so that a repeated approval is idempotent. */
export function grantIdOf([key]: KeyRing, uid: string): string {
  return createHmac('sha256', key).update(`grant\n${uid}`).digest('base64url').slice(0, 32);
}
