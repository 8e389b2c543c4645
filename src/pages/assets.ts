// The stylesheet, the icon and the logo: read once, served from memory, asked for again only when they changed.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type Koa from 'koa';

/** Where a page finds them. */
export type AssetAddresses = { style: string; icon: string; logo?: string; darkLogo?: string };

export type Assets = { addresses: AssetAddresses; middleware: Koa.Middleware };

type Asset = { name: string; body: Buffer; etag: string };

/** `colours.css` of a theme comes after the stylesheet. Throws an error that names a file that is missing or cannot be used. */
export function openAssets(directories: readonly string[]): Assets {
  const colours = findFile(directories, 'colours.css');
  if (colours && /@import|url\(/i.test(colours.toString()))
    throw new Error(
      'colours.css loads something: pages load nothing but their stylesheet and logo',
    );
  const sheets = [requireFile(directories, 'assets/style.css'), ...(colours ? [colours] : [])];
  const style = asset('style.css', Buffer.concat(sheets));
  const icon = asset('icon.svg', requireFile(directories, 'assets/icon.svg'));
  const logo = findLogo(directories, 'logo');
  const darkLogo = findLogo(directories, 'logo-dark');
  return {
    addresses: {
      style: addressOf(style),
      icon: addressOf(icon),
      ...(logo ? { logo: addressOf(logo) } : {}),
      ...(darkLogo ? { darkLogo: addressOf(darkLogo) } : {}),
    },
    middleware: serveAssets([style, icon, ...[logo, darkLogo].filter((one) => one !== undefined)]),
  };
}

function findFile(directories: readonly string[], name: string): Buffer | undefined {
  const files = directories.map((directory) => join(directory, name));
  const file = files.findLast((path) => existsSync(path));
  return file === undefined ? undefined : readFileSync(file);
}

function requireFile(directories: readonly string[], name: string): Buffer {
  const body = findFile(directories, name);
  if (body) return body;
  throw new Error(`${join(directories[0] ?? '', name)} is missing`);
}

const MOST_BYTES = 64 * 1024;
const STARTS: Record<string, RegExp> = {
  svg: /^\s*<(\?xml|!--|!doctype|svg)/i,
  png: /^\u0089PNG\r\n/,
  webp: /^RIFF[^]{4}WEBP/,
  jpg: /^\u00FF\u00D8\u00FF/,
};

/** What the file is, is seen in its first bytes, so that nothing is served as what it is not. */
function findLogo(directories: readonly string[], name: string): Asset | undefined {
  for (const [extension, start] of Object.entries(STARTS)) {
    const file = `${name}.${extension}`;
    const body = findFile(directories, file);
    if (!body) continue;
    if (body.length > MOST_BYTES)
      throw new Error(`${file} has ${body.length} bytes; ${MOST_BYTES} is the most for a logo`);
    if (start.test(body.subarray(0, 200).toString('latin1'))) return asset(file, body);
    throw new Error(`${file} is not what its name says`);
  }
  return undefined;
}

function asset(name: string, body: Buffer): Asset {
  return { name, body, etag: createHash('sha256').update(body).digest('base64url').slice(0, 22) };
}

/** With the version in it, it may be kept for as long as one likes. */
function addressOf({ name, etag }: Asset): string {
  return `/assets/${name}?v=${etag}`;
}

/** An image that is opened by itself runs nothing either. */
const IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

function serveAssets(list: Asset[]): Koa.Middleware {
  const assets = new Map(list.map((one) => [`/assets/${one.name}`, one]));
  return async function pageAssets(ctx, next) {
    const found = assets.get(ctx.path);
    if (!found || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next();
    const { name, body, etag } = found;
    ctx.body = body;
    ctx.type = name.slice(name.lastIndexOf('.'));
    ctx.etag = etag;
    const isVersioned = ctx.query.v === etag;
    ctx.set(
      'Cache-Control',
      isVersioned ? 'public, max-age=31536000, immutable' : 'public, max-age=300',
    );
    if (name.endsWith('.svg')) ctx.set('Content-Security-Policy', IMAGE_POLICY);
    if (ctx.fresh) ctx.status = 304;
  };
}
