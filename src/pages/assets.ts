import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type Koa from 'koa';

/** Paths with a version. */
export type AssetPaths = {
  style: string;
  icon: string;
  script: string;
  logo?: string;
  darkLogo?: string;
};

export type Assets = { paths: AssetPaths; middleware: Koa.Middleware };

type Asset = { name: string; body: Buffer; etag: string };

/** Reads stylesheet, icon, the script of the console and logo. Appends `colours.css` of a theme to the stylesheet. Throws an error with the name of a missing or invalid file. */
export function openAssets(directories: readonly string[]): Assets {
  const colours = findFile(directories, 'colours.css');
  if (colours && /@import|url\(/i.test(colours.toString()))
    throw new Error('colours.css loads another file: pages load only their stylesheet and logo');
  const sheet = requireFile(directories, 'assets/style.css');
  const own = requireFile(directories.slice(0, 1), 'assets/style.css');
  const sheets = [sheet.equals(own) ? compact(own) : sheet, ...(colours ? [colours] : [])];
  const style = asset('style.css', Buffer.concat(sheets));
  // A theme cannot replace it: it runs in the browsers of administrators.
  const script = asset('copy.js', requireFile(directories.slice(0, 1), 'assets/copy.js'));
  const icon = asset('icon.svg', requireFile(directories, 'assets/icon.svg'));
  const logo = findLogo(directories, 'logo');
  const darkLogo = findLogo(directories, 'logo-dark');
  return {
    paths: {
      style: pathOf(style),
      icon: pathOf(icon),
      script: pathOf(script),
      ...(logo ? { logo: pathOf(logo) } : {}),
      ...(darkLogo ? { darkLogo: pathOf(darkLogo) } : {}),
    },
    middleware: serveAssets([
      style,
      icon,
      script,
      ...[logo, darkLogo].filter((one) => one !== undefined),
    ]),
  };
}

/** Without comments and most blanks, of which our stylesheet has no strings. Pages of people load it on a phone. */
function compact(sheet: Buffer): Buffer {
  const text = sheet.toString().replaceAll(/\/\*[^]*?\*\//g, '');
  return Buffer.from(text.replaceAll(/\s+/g, ' ').replaceAll(/ ?([{};]) ?/g, '$1'));
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

const MAX_LOGO_BYTES = 64 * 1024;
/** First bytes, as Latin-1. */
const SIGNATURES: Record<string, RegExp> = {
  svg: /^\s*<(\?xml|!--|!doctype|svg)/i,
  png: /^\u0089PNG\r\n/,
  webp: /^RIFF[^]{4}WEBP/,
  jpg: /^\u00FF\u00D8\u00FF/,
};

/** Checks that the content matches the extension. */
function findLogo(directories: readonly string[], name: string): Asset | undefined {
  for (const [extension, signature] of Object.entries(SIGNATURES)) {
    const file = `${name}.${extension}`;
    const body = findFile(directories, file);
    if (!body) continue;
    if (body.length > MAX_LOGO_BYTES)
      throw new Error(`${file} has ${body.length} bytes; a logo has at most ${MAX_LOGO_BYTES}`);
    if (signature.test(body.subarray(0, 200).toString('latin1'))) return asset(file, body);
    throw new Error(`${file} is not a ${extension} image`);
  }
  return undefined;
}

function asset(name: string, body: Buffer): Asset {
  return { name, body, etag: createHash('sha256').update(body).digest('base64url').slice(0, 22) };
}

/** Responses for a path with the current version are cached forever. */
function pathOf({ name, etag }: Asset): string {
  return `/assets/${name}?v=${etag}`;
}

/** Prevents scripts in an SVG that is opened directly. */
const SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

function serveAssets(list: Asset[]): Koa.Middleware {
  const assets = new Map(list.map((one) => [`/assets/${one.name}`, one]));
  return function pageAssets(ctx, next) {
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
    if (name.endsWith('.svg')) ctx.set('Content-Security-Policy', SVG_POLICY);
    if (ctx.fresh) ctx.status = 304;
    return undefined;
  };
}
