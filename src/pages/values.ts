// The values of each page, without words. views/README.md describes them for authors of templates.
import type { ConsoleValues, Instruction } from './console-values.ts';

/** `provider` is absent for a company account. */
export type Account = {
  name: string;
  /** Verified by the identity provider. */
  email?: string;
  unverifiedEmail?: string;
  provider?: string;
};
export type Connector = { name: string; link: string };

export type AskingClient =
  | { name: string; kind: 'self-registered' | 'pre-registered' }
  /** `host` of the Client ID Metadata Document identifies the client. */
  | { name: string; kind: 'metadata-document'; host: string };

/** `host` of its Client ID Metadata Document, if the host identifies the client. `isUnverified`: it registered itself. */
export type ConnectedClient = { name: string; host?: string; isUnverified?: true };

/** `destination` is the host and port, or the private scheme, of the redirect URI. */
export type Redirect =
  | {
      destination: string;
      kind: 'elsewhere' | 'this-computer' | 'app';
      /** The destination is on another host than the client's metadata document, and on no subdomain of it. */
      isOtherHost?: true;
    }
  | {
      kind: 'device';
      /** The code that the device shows, as `BCDF-GHJK`. */
      destination: string;
      /** When the device asked, in seconds since the epoch. */
      startedAt: number;
      /** The IPv4 address, or the IPv6 /64 network, from which the device asked. */
      network: string;
      /** The person's browser is in another network. */
      isOtherNetwork?: true;
    };

/** `tools` are the titles of the tools that the level opens, those of the highest level first; absent if they are not known. */
export type LevelChoice = {
  level: string;
  selected: boolean;
  /** Calls with the level are recorded. */
  recorded?: true;
  /** With their arguments. */
  recordsArguments?: true;
  /** The level requires DPoP, which the client has not announced. `otherwise` is the level that it gets without. */
  needsKey?: { otherwise?: string };
  /** Approving the level needs another sign-in first. */
  signsIn?: true;
  tools?: { shown: string[]; rest: string[]; unlisted: number };
};

/** `consent.learned` has a text for each. `service`: where the person signs in. */
export type LearnedClaim = 'name' | 'email' | 'groups' | 'subject' | 'service';
export type Learned = { server: string; claims: LearnedClaim[] };

/** Durations are in seconds. `action` is a path on the same host. The caller validates every `href`. */
export type ViewValues = ConsoleValues & {
  consent: {
    action: string;
    token: string;
    client: AskingClient;
    /** Absent for a connection that is to get more access. */
    redirect?: Redirect;
    /** The connection that is to get more access: what it has now, and since when. */
    raise?: { level: string; since: number };
    connector: Connector;
    /** Levels that can be granted, lowest first. At most one is selected. */
    levels: LevelChoice[];
    /** The texts about the levels are those about the sample, which say what calls with each of them show. */
    describesSample: boolean;
    /** The server lists its tools only to people who have connected their own account. */
    toolsNeedAccount?: true;
    /** Calls of every level are recorded. */
    recordsUse: boolean;
    account: Account;
    /** What the server behind the connector learns about the person. Absent if nothing. */
    learned?: Learned;
    /** Present if the person can choose to stay connected, for at most `lifetime`. */
    stay?: { checked: boolean; lifetime: number };
    /** Without `stay`: how long the app can refresh its access, if it requested that. */
    renewableFor?: number;
    accessLifetime: number;
    /** The address where the person sees and disconnects what they connected. */
    accountPage: string;
    /** What changed after the person loaded the page, so that nothing was approved. */
    changed?: 'app' | 'connector' | 'account' | 'levels';
    /** What the sign-in that the chosen level needs lacked, so that nothing was approved. */
    stepUp?: 'time' | 'class' | 'stopped';
  };
  'no-access': {
    action: string;
    token: string;
    account: Account;
    connector: Connector;
    /** `not-in-audience`: the connector is for certain people only. `used-up`: its limit of uses is reached. */
    reason: 'not-entitled' | 'not-in-audience' | 'used-up';
    /** As in the log, and for `gatehouse why`. */
    reference: string;
    /** The identity provider left out the person's groups, because they are too many. */
    groupsOmitted?: true;
  };
  /** Where a person connects the own account at the server behind a connector. */
  credential: {
    action: string;
    /** Hidden fields of the form. */
    fields: { name: string; value: string }[];
    /** The name of the server. */
    service: string;
    /** `exchange`: nothing is connected, but the person may have to sign in again. */
    kind: 'oauth' | 'exchange' | 'key';
    /** What the service is asked for; may be empty. */
    scopes: string[];
    /** What the key is called, and where people find it. */
    label?: string;
    help?: string;
    /** The person to whom the credential will belong. Absent with `isOfOperator`. */
    account?: Account;
    /** The page stands for itself, and not between an approval and the app. */
    isOwnPage?: true;
    /** The account with which the tools of the server are read, and not that of a person. */
    isOfOperator?: true;
    /** What is connected now. `name` is the account as the service names it. */
    connected?: { since: number; scopes: string[]; name?: string; isUntried?: true };
    /** Why the last attempt failed. */
    trouble?: 'refused' | 'unavailable' | 'not_set_up' | 'key';
  };
  waiting: {
    /** The name is a claim of the app. */
    client: { id: string; name: string };
    /** Path to try again. */
    again: string;
  };
  /** Where a person enters the code of a device. `code` is the one in the address, as `BCDF-GHJK`; nobody has checked it. */
  device: {
    action: string;
    token: string;
    code?: string;
    /** What the person typed, if it is not a valid code. */
    typed?: string;
    trouble?: 'unknown';
  };
  done: {
    /** `withdrawn`: denied after the app got access. */
    decision: 'approved' | 'denied' | 'withdrawn';
    /** Empty for a device. */
    destination: string;
    /** The approved level, if known. */
    level?: string;
    /** The names of the app and the connector, if the person approved the connection and they are known. */
    client?: string;
    connector?: string;
    /** The address where the person sees and disconnects what they connected. */
    accountPage: string;
  };
  error: {
    /** The key of the texts below `errors`. */
    about: string;
    /** For the app's developer, in English. */
    detail?: string;
    reference: string;
    returnTo?: { href: string; host: string };
    /** How people remove the server in their app, or in each app that may connect. */
    removals?: { app: string; steps: string }[];
    /** The request named another host: the address that works. */
    rightAddress?: string;
    /** Where to start again if no app waits for a response: the connected apps, the console, or the page for the code of a device. */
    start?: 'account' | 'console' | 'device';
  };
  /** The choice of an identity provider if there are several. */
  'sign-in': {
    action: string;
    /** `id` is posted as `provider`. `isLast`: the one last used in this browser. */
    providers: { id: string; name: string; isLast: boolean }[];
    /** Why the sign-in at the provider with this name failed. `reference` is in the log. */
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
    /** Newest first. Times are in seconds since the epoch. */
    apps: {
      /** Posted as `grant`. */
      grant: string;
      client: ConnectedClient;
      /** The host and port, or the private scheme, of the redirect URI. */
      destination: string;
      connector: string;
      /** What the server behind the connector learns about the person. Absent if nothing. */
      learned?: Learned;
      level: string;
      /** The levels below `level`, lowest first. */
      lower: string[];
      /** Titles of tools that it can use and that came after the approval. */
      later?: string[];
      /** Whether it was connected since the person was last on the page. */
      isNew?: boolean;
      /** Whether the person may give it more access. */
      mayRaise?: boolean;
      since: number;
      /** When it last got tokens. */
      lastUsed: number;
      /** When it ends if it is not used before. */
      until: number;
      /** The key below `reasons`, if it does not work at present. */
      reason?: string;
    }[];
    /** The person's own accounts at servers. `name` is the account as the service names it. */
    credentials: {
      /** Posted as `upstream`. */
      upstream: string;
      service: string;
      name?: string;
      /** Granted; may be empty. */
      scopes: string[];
      since: number;
      /** A key that the server takes as it takes none. */
      isUntried?: true;
      /** It comes with the sign-in, and cannot be disconnected here. */
      isOfSignIn?: true;
      /** The service keeps the access when it is disconnected here. */
      stays?: true;
    }[];
    /** Connections that ended in the last 30 days, newest first. */
    activity: {
      client: ConnectedClient;
      connector: string;
      /** Absent if unknown. */
      level?: string;
      /** Absent if unknown. */
      at?: number;
      /** The key below `reasons`. */
      reason: string;
    }[];
    /** The action that just succeeded. */
    done?: 'disconnected' | 'disconnected-all' | 'lowered' | 'raised' | 'credential-ended';
    /** What `done` is about, if it is one app. */
    doneApp?: { client: string; connector: string; level: string };
  };
  /** `signIn` is a path on the same host. */
  'signed-out': { signIn: string };
  /** How to add a connect link to apps. */
  'connect-link': {
    connector: Connector;
    /** Addresses that add the link to the app with this name. They have the scheme of the app. */
    installs: { client: string; href: string }[];
    instructions: Instruction[];
    /** How to remove the link in an app, in the words of its English interface. */
    removals: { app: string; steps: string }[];
    /** Nobody can connect until an administrator resumes it. */
    isPaused: boolean;
  };
  /** `account` is the address of the connected apps, `console` that of the console, if the page may name it. */
  home: { resourceUrl: string; account: string; console?: string };
};

export type ViewName = keyof ViewValues;

/** Values of every page. */
export type SharedValues = {
  productName: string;
  supportContact?: string;
  links: { label: string; href: string }[];
};
