// The pages people see: each view with its values and the words of the person's language, as HTML (EJS behind koa-views).
import { join, relative, sep } from 'node:path';
import type Koa from 'koa';
import views from 'koa-views';
import { openAssets } from './assets.ts';
import { wishesOf } from './languages.ts';
import { readMessageFiles } from './message-files.ts';
import { openLanguages, type Speech } from './messages.ts';
import { compileTemplates, findTemplates } from './templates.ts';
import { explained, refuseBrokenTheme } from './theme.ts';
import type { SharedValues, ViewName, ViewValues } from './values.ts';

export type { ViewName, ViewValues } from './values.ts';

export type Pages = {
  /** Serves the stylesheet, the icon and the logo at `/assets/…`; everything else goes on. */
  middleware: Koa.Middleware;
  /** Answers with the view as HTML that nobody may keep. Needs no middleware before it, so error handlers can use it too. */
  render<Name extends ViewName>(
    ctx: Koa.Context,
    view: Name,
    values: ViewValues[Name],
    status?: number,
  ): Promise<void>;
  /** Whether there is a text about this error. */
  knows: (about: string) => boolean;
  /** What can be said to somebody who wishes for these languages. */
  speak: (wishes: readonly string[]) => Speech;
};

export type PageSettings = Omit<SharedValues, 'links'> & Partial<SharedValues>;

const DIRECTORY = join(import.meta.dirname, '../../views');

/** Reading our own message files takes longer than all the rest, and they are the same for everybody in this process. */
let ownMessages: ReturnType<typeof readMessageFiles> | undefined;

/**
 * Reads and compiles everything once. A file in `theme` takes the place of ours with the same name. Throws an error that names file and
 * line when something in the theme cannot be used: every page is tried out with sample values before anybody sees it.
 */
export function openPages(shared: PageSettings, theme?: string): Pages {
  return theme === undefined ? open(shared) : explained(theme, () => open(shared, theme));
}

function open(shared: PageSettings, theme?: string): Pages {
  ownMessages ??= readMessageFiles(join(DIRECTORY, 'messages'));
  const directories = [DIRECTORY, ...(theme === undefined ? [] : [theme])];
  const themeMessages = theme === undefined ? new Map() : readMessageFiles(join(theme, 'messages'));
  const languages = openLanguages([ownMessages, themeMessages]);
  const assets = openAssets(directories);
  const render = compileTemplates(findTemplates(directories));
  const always = { links: [], ...shared, assets: assets.addresses };
  if (theme !== undefined)
    refuseBrokenTheme({
      theme,
      own: DIRECTORY,
      ownMessages,
      themeMessages,
      languages,
      render,
      always,
    });
  // An engine of our own: koa-views' default one takes the values for compiler options and compiles on every request.
  const engine = async (file: string, { page }: { page: object }) => render(viewNamed(file), page);
  const install = views(DIRECTORY, { extension: 'ejs', engineSource: { ejs: engine } });

  return {
    middleware: assets.middleware,
    speak: languages.speak,
    knows: (about) => languages.speak([]).has(`errors.${about}.title`),
    async render(ctx, view, values, status = 200) {
      const page = { ...values, ...always, ...languages.speak(wishesOf(ctx)) };
      await install(ctx, async () => {});
      await ctx.render(`${view}.ejs`, { page });
      ctx.status = status;
      ctx.set('Cache-Control', 'no-store');
      ctx.set('Content-Language', page.language);
      ctx.vary('Accept-Language');
    },
  };
}

function viewNamed(file: string): string {
  return relative(DIRECTORY, file).slice(0, -'.ejs'.length).replaceAll(sep, '/');
}
