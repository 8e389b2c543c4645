// What each page is told: plain values, no words; views/README.md explains them to whoever writes a template.
import type { ConsoleValues } from './console-values.ts';

/** Without `provider` it is the person's company account. */
export type Account = {
  name: string;
  /** Only when the identity provider says that it was verified; otherwise `unverifiedEmail`. */
  email?: string;
  unverifiedEmail?: string;
  provider?: string;
};
export type Connector = { name: string; link: string };

export type AskingClient =
  | { name: string; kind: 'self-registered' | 'pre-registered' }
  /** `host` is where the Client ID Metadata Document lives: the client's identity. */
  | { name: string; kind: 'metadata-document'; host: string };

/** `host` is where its Client ID Metadata Document lives, if it has one and the host says who it is. */
export type ConnectedClient = { name: string; host?: string };

/** `destination` is the host and port, or the private scheme, that the answer is sent to. */
export type Redirect = { destination: string; kind: 'elsewhere' | 'this-computer' | 'app' };

/** Durations are seconds; `action` is a path on the same host; every `href` was checked by the caller; what a text is called is its key in the message files. */
export type ViewValues = ConsoleValues & {
  consent: {
    action: string;
    token: string;
    client: AskingClient;
    redirect: Redirect;
    connector: Connector;
    /** Those that may be granted, lowest first; one is selected at most. */
    levels: { level: string; selected: boolean }[];
    account: Account;
    /** Present: the person is offered to stay connected, for `lifetime` at most. */
    stay?: { checked: boolean; lifetime: number };
    /** Without `stay`: for how long the app may renew its access, when it asked for that. */
    renewableFor?: number;
    accessLifetime: number;
    /** The address where the person sees and disconnects what they connected. */
    accountPage: string;
    /** Something changed since the person looked. */
    changed: boolean;
  };
  'no-access': {
    action: string;
    token: string;
    account: Account;
    connector: Connector;
    /** `used-up`: the connector's limit is reached, whoever asks. */
    reason: 'not-entitled' | 'used-up';
  };
  done: {
    /** `withdrawn`: denied after the app had got access. */
    decision: 'approved' | 'denied' | 'withdrawn';
    destination: string;
    /** What the app may see, when it was approved and that is known. */
    level?: string;
    /** The address where the person sees and disconnects what they connected. */
    accountPage: string;
  };
  error: {
    /** The key below `errors` of what happened and what to do. */
    about: string;
    /** For whoever makes the app, in English. */
    detail?: string;
    reference: string;
    returnTo?: { href: string; host: string };
    /** Where to start again when no app is waiting for an answer: the page of connected apps, or the console. */
    start?: 'account' | 'console';
  };
  /** Where to sign in, when there are several identity providers. */
  'sign-in': {
    action: string;
    /** `id` is posted back as `provider`. `isLast`: chosen last time in this browser. */
    providers: { id: string; name: string; isLast: boolean }[];
    /** What happened at the provider of that name a moment ago. `reference` is for the operator's log. */
    trouble?: { name: string; reason: 'unavailable' | 'stopped' | 'notSetUp'; reference?: string };
  };
  'development-sign-in': {
    action: string;
    people: { id: string; name: string; email: string; may: string }[];
  };
  'connected-apps': {
    action: string;
    token: string;
    account: Account;
    /** The newest first. Times are seconds since 1970. */
    apps: {
      /** Posted back as `grant`. */
      grant: string;
      client: ConnectedClient;
      /** The host and port, or the private scheme, that the answer was sent to. */
      destination: string;
      connector: string;
      level: string;
      /** The levels below it, lowest first. */
      lower: string[];
      since: number;
      /** When it last fetched tokens. */
      lastUsed: number;
      /** When it ends, unless it is used before. */
      until: number;
      /** The key below `reasons` of why it does not work at present. */
      reason?: string;
    }[];
    /** What ended in the last 30 days, the newest first. */
    activity: {
      client: ConnectedClient;
      connector: string;
      /** Absent when nobody knows. */
      at?: number;
      /** The key below `reasons`. */
      reason: string;
    }[];
    /** What the person has just done here. */
    done?: 'disconnected' | 'disconnected-all' | 'lowered';
  };
  /** `signIn` is a path on the same host. */
  'signed-out': { signIn: string };
  /** `account` is the path of the connected apps. */
  home: { resourceUrl: string; account: string };
};

export type ViewName = keyof ViewValues;

/** What every page is told besides. */
export type SharedValues = {
  productName: string;
  supportContact?: string;
  links: { label: string; href: string }[];
};
