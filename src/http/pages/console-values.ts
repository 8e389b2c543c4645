// What each page of the console is told: plain values, no words. Every time is seconds since 1970, every `href` and `action` a path on the same host.

/** Around every page of the console. */
export type ConsoleFrame = {
  /** The key below `console.sections` of the page that is shown. */
  section: string;
  sections: { name: string; href: string }[];
  /** Who is signed in. */
  administrator: string;
  /** Goes with every form. */
  token: string;
  /** What has just been done: the key below `console.done`. */
  done?: string;
  /** What was wrong with a form: the key below `console.problems`. */
  problem?: 'name' | 'suggested' | 'uses' | 'days' | 'other';
};

/** `left` and `maxUses` are there when uses are limited. */
export type ConsoleConnector = {
  id: string;
  name: string;
  level: string;
  /** What the consent page preselects at most. */
  suggestedLevel?: string;
  state: 'active' | 'used-up' | 'expired' | 'revoked';
  href: string;
  createdAt: number;
  expiresAt?: number;
  uses: number;
  left?: number;
  maxUses?: number;
};

/** What was entered before, when something was wrong with it. `once` keeps a second click from making a second one. */
export type MakingForm = {
  action: string;
  once: string;
  levels: string[];
  name: string;
  level: string;
  days: string;
};

/** What a list says of an item: `label` is the key below `console.fields`; one of `text`, `code`, `time` and `level` is there. */
export type ConsoleFact = {
  label: string;
  text?: string;
  /** An id, an address, or a code as it stands in logs. */
  code?: string;
  /** The key of what `code` means; a code of another version may have no such text. */
  said?: string;
  /** The name of what has the id in `code`. */
  called?: string;
  time?: number;
  level?: string;
};

/** `name` is the key below `console.actions`; `id` is posted as `id`. */
export type ConsoleAction = { name: string; action: string; id: string };

/** `state` is the key below `console.states`; `isWell` when it needs nobody's attention; `said` is the key of what a code in `title` means. */
export type ConsoleItem = {
  title: string;
  said?: string;
  state?: string;
  isWell?: boolean;
  facts: ConsoleFact[];
  actions: ConsoleAction[];
};

/** `name` is the key below `console.filters`, and the field; each choice is a value, and the key below `said`. */
export type ConsoleFilter = { name: string; value: string; said: string; choices: string[] };

export type ConsoleValues = {
  /** Clients, grants, accounts and the audit log: the texts are those of the section. */
  'console/list': {
    console: ConsoleFrame;
    items: ConsoleItem[];
    next?: string;
    filters: ConsoleFilter[];
    /** What the filters are sent to. */
    action: string;
  };
  'console/tokens': {
    console: ConsoleFrame;
    items: ConsoleItem[];
    next?: string;
    form: MakingForm;
    /** The token that was just minted, this once; `url` is the one address that takes it. */
    minted?: { name: string; token: string; url: string; example: string };
  };
  'console/health': {
    console: ConsoleFrame;
    version: string;
    /** `name` is the key below `console.health`. */
    checks: { name: string; isWell: boolean }[];
    /** The signing keys. */
    items: ConsoleItem[];
  };
  'console/connectors': {
    console: ConsoleFrame;
    items: ConsoleConnector[];
    /** Where the next page of the list is. */
    next?: string;
    /** `suggestedLevel` is empty for the level itself. */
    form: MakingForm & { suggestedLevel: string; maxUses: string };
  };
  'console/connector': {
    console: ConsoleFrame;
    connector: ConsoleConnector & { link: string };
    /** How to add the link to each app; none when the link does not work any more. */
    instructions: { client: string; text: string }[];
    /** The address where people see and disconnect what they connected. */
    account: string;
    /** Where to post to end it; or, once it is over, to forget it. */
    revoke?: string;
    delete?: string;
  };
  /** For whoever may choose among several identity providers. */
  'console/sign-in': { providers: { name: string; href: string }[] };
  'console/signed-out': { reason: 'signed-out' | 'not-administrator'; signIn: string };
};
