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
  problem?: 'name' | 'uses' | 'days' | 'other';
};

/** `left` and `maxUses` are there when uses are limited. */
export type ConsoleConnector = {
  id: string;
  name: string;
  level: string;
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

export type ConsoleValues = {
  'console/connectors': {
    console: ConsoleFrame;
    items: ConsoleConnector[];
    /** Where the next page of the list is. */
    next?: string;
    form: MakingForm & { maxUses: string };
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
