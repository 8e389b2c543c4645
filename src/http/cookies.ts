/** `Lax`, because the identity provider's redirect comes from another site. */
export const COOKIE = { httpOnly: true, sameSite: 'lax', overwrite: true, path: '/' } as const;

/** The prefix `__Host-` prevents sibling domains from setting the cookie (RFC 6265bis section 4.1.3). It requires HTTPS. */
export function hostCookieName(name: string, { isHttps }: { isHttps: boolean }): string {
  return `${isHttps ? '__Host-' : ''}${name}`;
}
