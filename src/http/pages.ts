// The pages people see: what each view is told, and how it becomes HTML (EJS behind koa-views).
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ejs from 'ejs';
import type Koa from 'koa';
import views from 'koa-views';

type Account = { name: string; email?: string; provider: string };
type Connector = { name: string; link: string };

/** A level on the consent page, in words; the words of the built-in sample are in level-texts.ts. */
export type LevelChoice = {
  level: string;
  title: string;
  sees: string;
  hidden: string;
  example: string;
  selected: boolean;
};

export type AskingClient =
  | { name: string; kind: 'self-registered' | 'pre-registered' }
  /** `host` is where the Client ID Metadata Document lives: the client's identity. */
  | { name: string; kind: 'metadata-document'; host: string };

/** What each view is told. Durations are words such as "1 hour"; `action` is a path on the same host; every `href` was checked by the caller. */
export type ViewValues = {
  consent: {
    action: string;
    token: string;
    client: AskingClient;
    /** `destination` is the host and port, or the private scheme, that the answer is sent to. */
    redirect: { destination: string; thisComputer: boolean };
    connector: Connector;
    /** Those that may be granted, lowest first. */
    levels: LevelChoice[];
    account: Account;
    /** Present: the person is offered to stay connected, for `lifetime` at most. */
    stay?: { checked: boolean; lifetime: string };
    /** Without `stay`: for how long the app may renew its access, when it asked for that. */
    renewableFor?: string;
    accessLifetime: string;
    /** Something changed since the person looked. */
    changed: boolean;
  };
  'no-access': {
    action: string;
    token: string;
    account: Account;
    connector: Connector;
    /** `used-up`: the connector's limit is reached, whoever asks. Absent: `not-entitled`. */
    reason?: 'not-entitled' | 'used-up';
  };
  error: {
    title: string;
    message: string;
    advice?: string;
    reference: string;
    returnTo?: { href: string; host: string };
  };
  'development-sign-in': {
    action: string;
    people: { id: string; name: string; email: string; may: string }[];
  };
  home: { resourceUrl: string };
};

export type ViewName = keyof ViewValues;

export type Pages = {
  /** Serves the stylesheet and the icon at `/assets/…`; everything else goes on. */
  middleware: Koa.Middleware;
  /** Answers with the view as HTML that nobody may keep. Needs no middleware before it, so error handlers can use it too. */
  render<Name extends ViewName>(
    ctx: Koa.Context,
    view: Name,
    values: ViewValues[Name],
    status?: number,
  ): Promise<void>;
};

const DIRECTORY = join(import.meta.dirname, '../../views');
const VIEWS: ViewName[] = ['consent', 'no-access', 'error', 'development-sign-in', 'home'];
const ASSETS = ['style.css', 'icon.svg'];

/** Reads and compiles everything in `directory`, once. Throws an error that names the file when a template or asset is missing or broken. */
export function openPages(
  shared: { productName: string; supportContact?: string },
  directory: string = DIRECTORY,
): Pages {
  const templates = compileTemplates(directory);
  // An engine of our own: koa-views' default one takes the values for compiler options and compiles on every request.
  const engine = async (file: string, state: { page: object }) => templates.get(file)?.(state.page);
  const install = views(directory, { extension: 'ejs', engineSource: { ejs: engine } });

  return {
    middleware: serveAssets(directory),
    async render(ctx, view, values, status = 200) {
      await install(ctx, async () => {});
      await ctx.render(`${view}.ejs`, { page: { ...values, ...shared } });
      ctx.status = status;
      ctx.set('Cache-Control', 'no-store');
    },
  };
}

function compileTemplates(directory: string): Map<string, ejs.TemplateFunction> {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const views = VIEWS.map((view) => `${view}.ejs`);
  const partials = files.filter((file) => file.endsWith('.ejs') && !views.includes(file));
  return new Map([...partials, ...views].map((file) => compileTemplate(join(directory, file))));
}

function compileTemplate(file: string): [string, ejs.TemplateFunction] {
  try {
    const template = ejs.compile(readFileSync(file, 'utf8'), {
      filename: file,
      cache: true,
      strict: true,
      localsName: 'page',
      escape: escapeText,
    });
    // Where `include` looks first: without this a partial would be read and compiled again at its first use.
    ejs.cache.set(file, template);
    return [file, template];
  } catch (error) {
    throw new Error(`the template ${file} cannot be used: ${String(error)}`, { cause: error });
  }
}

const UNSEEN = /[\p{Bidi_Control}\p{Cc}\u00AD\u200B\u2060\uFEFF]/gu;

/** Characters that nobody sees but that turn text round or split it are shown as a replacement mark: names come from strangers. */
function escapeText(value: unknown): string {
  return ejs.escapeXML(String(value ?? '').replace(UNSEEN, '\uFFFD'));
}

function serveAssets(directory: string): Koa.Middleware {
  const assets = new Map(
    ASSETS.map((name) => {
      const body = readFileSync(join(directory, 'assets', name));
      const etag = createHash('sha256').update(body).digest('base64url');
      return [`/assets/${name}`, { name, body, etag }];
    }),
  );
  return async function pageAssets(ctx, next) {
    const asset = assets.get(ctx.path);
    if (!asset || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next();
    ctx.body = asset.body;
    ctx.type = asset.name.slice(asset.name.lastIndexOf('.'));
    ctx.etag = asset.etag;
    ctx.set('Cache-Control', 'public, max-age=300');
    if (ctx.fresh) ctx.status = 304;
  };
}
