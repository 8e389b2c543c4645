import { join, relative, sep } from 'node:path';
import type Koa from 'koa';
import views from 'koa-views';
import { openAssets } from './assets.ts';
import { type Clock, openLanguages, preferredLanguages, type Translator } from './languages.ts';
import { levelTexts, withoutLevelTexts } from './level-texts.ts';
import { type MessageFiles, openMessageFiles, readMessageFiles } from './messages.ts';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import { DEFAULT_LEVELS, type Levels } from '../permission-levels.ts';
import { checkTemplates, findTemplates, openTemplates } from './templates.ts';
import { checkTheme, withThemeErrors } from './theme.ts';
import type { SharedValues, ViewName, ViewValues } from './values.ts';

export type { ViewName, ViewValues } from './values.ts';

export type Pages = {
  /** Serves stylesheet, icon and logo below `/assets/`. */
  middleware: Koa.Middleware;
  /** Responds with the view as HTML that is not cached. Needs no other middleware, so that error handlers can use it. */
  render<Name extends ViewName>(
    ctx: Koa.Context,
    view: Name,
    values: ViewValues[Name],
    status?: number,
  ): Promise<void>;
  /** BCP 47 tags, sorted. */
  languages: readonly string[];
  /** Whether the error page has texts about this error. */
  hasErrorTexts: (about: string) => boolean;
  /** Returns the translator for the first of these languages that is available, or for English. */
  translator: (preferred: readonly string[]) => Translator;
};

export type PageSettings = Omit<SharedValues, 'links'> &
  Partial<SharedValues> & {
    /** Default: those of the sample. */
    levels?: Levels;
    /** Whether our own texts about the levels, which describe the sample, are shown. Default: true. */
    describesSample?: boolean;
    /** Default: the clock of the computer. */
    now?: Clock;
  };

const DIRECTORY = join(PACKAGE_FOLDER, 'views');
/** Views of the console, which is in English, as the command line is. */
const CONSOLE_VIEWS = 'console/';

/** Reading these files takes time at a start, and they are the same in the whole process. */
let ownMessages: MessageFiles | undefined;
let ownFiles: ReturnType<typeof openFiles> | undefined;

/** Reads all files once. Files in `theme` are checked, and replace ours with the same name. Throws ThemeError. */
export function openPages(settings: PageSettings, theme?: string): Pages {
  return theme === undefined ? open(settings) : withThemeErrors(theme, () => open(settings, theme));
}

function openFiles(theme?: string) {
  if (theme !== undefined) checkTemplates(findTemplates([theme]));
  const directories = [DIRECTORY, ...(theme === undefined ? [] : [theme])];
  return {
    assets: openAssets(directories),
    render: openTemplates(findTemplates(directories)),
  };
}

function open(
  { levels = DEFAULT_LEVELS, describesSample = true, now, ...settings }: PageSettings,
  theme?: string,
): Pages {
  ownMessages ??= openMessageFiles(join(DIRECTORY, 'messages'));
  const themeMessages = theme === undefined ? new Map() : readMessageFiles(join(theme, 'messages'));
  const sources = { levels, own: ownMessages, theme: themeMessages };
  const texts = levelTexts(sources, describesSample);
  const languages = openLanguages(
    [withoutLevelTexts(ownMessages), withoutLevelTexts(themeMessages), texts],
    now,
  );
  const { assets, render } = theme === undefined ? (ownFiles ??= openFiles()) : openFiles(theme);
  const shared = { links: [], ...settings, assets: assets.paths };
  if (theme !== undefined)
    checkTheme({
      theme,
      own: DIRECTORY,
      ownMessages,
      themeMessages,
      // A template may name texts about levels that the settings do not have.
      languages: openLanguages([ownMessages, themeMessages, texts]),
      shared,
    });
  // The default engine of koa-views uses the values as compiler options, and compiles on every request.
  const engine = async (file: string, { page }: { page: object }) => render(viewName(file), page);
  const install = views(DIRECTORY, { extension: 'ejs', engineSource: { ejs: engine } });

  return {
    middleware: assets.middleware,
    languages: languages.names,
    translator: languages.translator,
    hasErrorTexts: (about) => languages.translator([]).has(`errors.${about}.title`),
    async render(ctx, view, values, status = 200) {
      const isTranslated = !view.startsWith(CONSOLE_VIEWS);
      const translator = languages.translator(isTranslated ? preferredLanguages(ctx) : []);
      await install(ctx, async () => {});
      await ctx.render(`${view}.ejs`, { page: { ...values, ...shared, ...translator } });
      ctx.status = status;
      ctx.set('Cache-Control', 'no-store');
      ctx.set('Content-Language', translator.language);
      if (isTranslated) ctx.vary('Accept-Language');
    },
  };
}

function viewName(file: string): string {
  return relative(DIRECTORY, file).slice(0, -'.ejs'.length).replaceAll(sep, '/');
}
