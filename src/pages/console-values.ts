// The values of the console's views. Times are seconds since the epoch. Each `href` and `action` is a path on the same host.
import type { EndKind } from '../observability/labels.ts';

/** A column chart. Sizes in units of the drawing; `at` in seconds since the epoch. */
export type ConsoleChart = {
  width: number;
  height: number;
  /** The number that the highest column stands for. */
  highest: number;
  total: number;
  /** Names below `console.overview.series`. */
  series: string[];
  /** `series` is an index. */
  bars: { x: number; y: number; width: number; height: number; series: number }[];
  rows: { at: number; values: number[] }[];
};

/** The layout around every page of the console. */
export type ConsoleLayout = {
  /** The key of the current page below `console.sections`. */
  section: string;
  /** In the order of the navigation. `group` is the key below `console.navigation`. */
  sections: { name: string; href: string; group: string }[];
  /** The words that everything was searched for. */
  search?: string;
  /** The name of the signed-in administrator. */
  administrator: string;
  /** The key below `console.signedInAs`. */
  role: 'viewer' | 'auditor' | 'operator' | 'administrator';
  /** The form token, part of every form. */
  token: string;
  /** The key of the action that succeeded: below `console.done`, or with `doneValues`, the names in the text, below `console.doneTo`. */
  done?: string;
  doneValues?: Record<string, string>;
  /** The key, below `console.problems`, of what is wrong with the submitted form. */
  problem?: string;
};

/** A field of a form. */
export type ConsoleFormField = {
  /** Also the key of its problem, and of its text below `console.problems`. */
  id: string;
  name: string;
  kind: 'text' | 'number' | 'url' | 'lines' | 'choice';
  /** The key of its label. */
  label: string;
  /** The keys of its notes, with what they name. */
  notes: { key: string; values?: Record<string, string> }[];
  value: string;
  required?: boolean;
  maxLength?: number;
  max?: number;
  /** Of a choice: levels, or others with a text. */
  choices?: { value: string; level?: string; text?: string; textKey?: string }[];
  /** Shows what each level allows. `recorded`: its calls are recorded. */
  compared?: { level: string; recorded: boolean }[];
};

/** The form with the values to show again after a problem. `idempotencyKey` prevents a double click from creating two. */
export type CreateForm = {
  action: string;
  idempotencyKey: string;
  fields: ConsoleFormField[];
};

/** A value of a record. One of `text`, `code`, `codes`, `textKey`, `time` and `level` is present. */
export type ConsoleField = {
  /** The key below `console.fields`. */
  label: string;
  /** The column of a table that it is in, if not the one named as its label. */
  column?: string;
  /** The key of another label. */
  labelKey?: string;
  text?: string;
  /** An id, an address, or a code as it appears in logs. */
  code?: string;
  /** A line each. */
  codes?: string[];
  /** The key of a text before `code`, and how many others there are. */
  before?: string;
  others?: number;
  /** The key of a text, with what it names, or of the meaning of `code`. A code of another version may have no text. */
  textKey?: string;
  textValues?: Record<string, number | undefined>;
  /** The name of the record with the id in `code`. */
  name?: string;
  time?: number;
  level?: string;
  /** The page of the record that it names. */
  href?: string;
};

/** `name` is the key below `console.actions`. The form posts `id`, and returns to the page `returnTo`. `rule` is what the action adds to the rules, and is shown beside it. */
export type ConsoleAction = {
  name: string;
  action: string;
  id: string;
  returnTo?: string;
  rule?: { name: string; destinations: string[] };
};

/** `state` is the key below `console.states`. `isOk` means no attention needed. `textKey` is the key of the meaning of a code in `title`. */
export type ConsoleItem = {
  id?: string;
  title: string;
  textKey?: string;
  /** The page of the record. */
  href?: string;
  state?: string;
  isOk?: boolean;
  /** What the row says beside the title. */
  facts?: ConsoleField[];
  fields: ConsoleField[];
  actions: ConsoleAction[];
  /** The page to change it. */
  edit?: string;
};

/** A column of a table. `name` is the key below `console.fields`; `sort` the address of the list in the order of the column, which it has in this `direction`. */
export type ConsoleColumn = {
  name: string;
  /** What its values are. */
  kind: 'title' | 'state' | 'time' | 'level' | 'code' | 'text';
  sort?: { href: string; direction?: 'ascending' | 'descending' };
};

/** `name` is the form field and the key below `console.filters`. Each choice is a value and the key of its text below `choiceTexts`. */
export type ConsoleFilter = { name: string; value: string } & (
  { choiceTexts: string; choices: string[]; input?: undefined } | { input: 'text' | 'date' }
);

/** A person, app or connector that a page names. Without `name` its record was deleted; without `href` it has no page. */
export type ConsoleLink = { name?: string; href?: string };

/** What a page is about is absent from its connections. */
export type ConsoleConnection = {
  app?: ConsoleLink;
  /** The machine itself if `isMachine`. */
  person?: ConsoleLink;
  isMachine?: boolean;
  connector?: ConsoleLink;
  /** The page of the connection. */
  href?: string;
  /** What its calls were. `name` is the key below `console.record.calls`. */
  calls: { name: 'today' | 'yesterday' | 'week' | 'all'; href: string }[];
  level?: string;
  /** The key below `console.states`. */
  state: string;
  isOk: boolean;
  since: number;
  lastActive?: number;
  endedAt?: number;
  reason?: ConsoleReason;
  actions: ConsoleAction[];
};

/** Why something ended or does not work. `code` is as in logs; one of another version may have no text. `advice` has keys below `console.advice`. */
export type ConsoleReason = { code: string; textKey: string; advice: string[] };

/** A name in a sentence. `tag` says whose it is, as in texts. `href` is the page of what it names. */
export type ConsoleName = { tag: 'claim' | 'name' | 'code'; text: string; href?: string };

/** An item of the audit log: a sentence, and everything recorded in `fields`. */
export type ConsoleEvent = {
  time: number;
  event: string;
  /** The key of the sentence. An event of another version may have none. */
  textKey: string;
  /** Who did it. The text of other kinds than `person` is below `console.managers`. */
  by: { kind: 'person' | 'key' | 'deleted' | 'unnamed'; text?: string; href?: string };
  /** What else the sentence names. `none` and `deleted` stand for a missing name. */
  values: Record<string, ConsoleName | string>;
  level?: string;
  /** The key of why it happened, as the end of a sentence. */
  causeKey?: string;
  /** Present if the sentence does not say it, or if it was refused or failed. */
  outcome?: ConsoleField;
  /** It was refused or failed. */
  isDoubtful: boolean;
  fields: ConsoleField[];
};

/** A tool of a server. Without a level, it is refused. `from` is the key below `console.servers.from`. */
export type ConsoleTool = {
  name: string;
  title?: string;
  level?: string;
  from: 'settings' | 'annotations' | 'default';
  /** The key below `console.review.held`. */
  held?: string;
  /** It is held, and was called in the last week. */
  isMissed: boolean;
  /** Its input schema is not of an object. */
  isNoObject: boolean;
  schemaFault?: string;
  /** The page that says through what it can be reached. */
  reach: string;
};

/** The search of a list: a GET form. */
export type ConsoleSearch = {
  /** The path that the form is submitted to. */
  action: string;
  filters: ConsoleFilter[];
  /** The submitted words. Absent if the list has no search by text. */
  q?: string;
  /** Ids in the address that narrow the list. `name` is the form field and the key below `console.fields`. */
  kept?: { name: string; value: string; text: string }[];
  /** The order in the address, which another search keeps. */
  sorted?: string;
  /** If the list is narrowed: the number of items that were found, and whether these are all. */
  found?: { count: number; isAll: boolean; isMany?: boolean };
};

/** What to copy into an app. `client` is the key of its texts below `apps`, `name` what the command or file calls the connector. */
export type Instruction = { client: string; text: string; name: string };

export type ConsoleHidden = { name: string; value: string };

/** A value as it was and as it is. */
export type ConsoleDifference = { labelKey: string; before: ConsoleField; after: ConsoleField };

/** The connections that a change would end or lower. */
type ConsoleAffected = {
  /** The number of connections that would stop or have a lower level. `isAll` is false if there may be more. */
  count: number;
  isAll: boolean;
  /** The first of them. `reasonKey` is the key of why it would stop, and `endsAt` when, if not at once. */
  affected: {
    href: string;
    app: string;
    person: string;
    before?: string;
    after?: string;
    lost?: string;
    mayLoseUnknown?: true;
    reasonKey?: string;
    endsAt?: number;
  }[];
};

export type ConsoleValues = {
  /** With the texts of the section. */
  'console/list': {
    console: ConsoleLayout;
    columns: ConsoleColumn[];
    items: ConsoleItem[];
    /** All items of the list. Without `isAll` there may be more, with `isMany` there are. */
    total?: { count: number; isAll: boolean; isMany?: boolean };
    previous?: string;
    next?: string;
    /** Set if the list is too long to be sorted as the address asks: how long it may be. */
    unsortedAbove?: number;
    /** The page to create one. Present without a value if the person may not, absent if nobody creates one there. */
    create?: string;
    /** The form that acts on several records: those with the action `of`, or, after a search or with a filter, all that was found: `all` is their number, 0 if it is not known yet. `place` is the query of the list. */
    several?: { action: string; of: string; place: string; all?: number };
    /** The form that downloads all that the filters find. */
    csv?: { action: string; fields: ConsoleHidden[] };
    /** Shows a form that blocks apps, with what it had when it was wrong. */
    block?: { host: string; name: string };
    /** The token that was just minted, shown only once. `url` is the only address that accepts it. */
    minted?: { name: string; token: string; url: string; example: string };
  } & ConsoleSearch;
  /** The first records that each list finds, and tools. */
  'console/search': {
    console: ConsoleLayout;
    q: string;
    /** `all` is the list, if it has more. */
    sections: { section: string; columns?: ConsoleColumn[]; items: ConsoleItem[]; all?: string }[];
    /** Lists of which only the beginning was searched, without a result. */
    unread: { section: string; href: string }[];
  };
  /** What an action on several records would end, before it is made. With the texts of the section. */
  'console/several': {
    console: ConsoleLayout;
    /** The form posts `ids`, `place`, the query of the list, and `confirm=yes`. */
    action: string;
    ids: string;
    place: string;
    count: number;
    /** The connections that end, and the number of people who have them. Without `isAll` there may be more. */
    connections: number;
    people: number;
    isAll: boolean;
    /** All of them. */
    names: { name: string; person?: string; connector?: string; href?: string }[];
    back: string;
  };
  /** What a block would disconnect now, before it is made. */
  'console/block': {
    console: ConsoleLayout;
    action: string;
    /** What is blocked. The form posts `value` as `field`, and `confirm=yes`. */
    subject: { field: 'host' | 'name'; value: string };
    /** The number of connected apps and machines that match, and of the connections that would end. */
    clients: number;
    connections: number;
    /** Whether these are all. */
    isAll: boolean;
    /** The first of their names. `href` is the list of the apps with a name. */
    names: { name: string; connections: number; href: string }[];
    moreNames: number;
    /** The page that is shown after the block, if it is not the list of rules. */
    returnTo?: string;
    /** The page that the form to block was on. */
    back: string;
  };
  'console/audit': {
    console: ConsoleLayout;
    events: ConsoleEvent[];
    next?: string;
    /** How many of the newest entries were searched for the words. */
    searched?: number;
    /** The receivers of the audit log. `state` is the key below `console.health.delivery`. */
    deliveries: {
      id: string;
      state: string;
      isOk: boolean;
      backlog: number;
      rejected: number;
      lost: number;
    }[];
    /** When the entries of a day were verified, in seconds since the epoch, and what was found. */
    checkedAt?: number;
    problems: number;
    /** The form that downloads what the filters find. Absent for people who may not. */
    export?: { action: string; fields: ConsoleHidden[]; ignoresWords: boolean };
  } & ConsoleSearch;
  /** The choice of the connector of a new machine. `most`: there are more than so many. */
  'console/pick-connector': {
    console: ConsoleLayout;
    action: string;
    q: string;
    columns: ConsoleColumn[];
    items: ConsoleItem[];
    most?: number;
    /** Set if it was searched. */
    found?: { count: number; isAll: boolean };
  };
  'console/new-token': { console: ConsoleLayout; form: CreateForm };
  'console/overview': {
    console: ConsoleLayout;
    /** What to look at: `name` is the key below `console.overview.attentions`. */
    attention: {
      name:
        | 'waiting'
        | 'waitingAtLeast'
        | 'servers'
        | 'held'
        | 'missed'
        | 'changed'
        | 'empty'
        | 'health'
        | 'tampered'
        | 'delivery'
        | `ending.${EndKind}`;
      count: number;
      href: string;
    }[];
    /** The page to create a connector. Absent if the person may not. */
    create?: string;
    /** By day. */
    connections: ConsoleChart;
    /** By hour. */
    calls: ConsoleChart;
    /** Calls of the last 7 days; `counts` in the order of `calls.series`. `other`: a level that the settings no longer have. */
    levels: { level: string; counts: number[] }[];
    /** The most frequent error codes of the last 7 days. `width` in percent of the first. */
    reasons: { reason: string; count: number; width: number }[];
    /** How often people got no access in the last 7 days, and the list of refused attempts. */
    refused: { count: number; href: string };
  };
  'console/health': {
    console: ConsoleLayout;
    version: string;
    /** `name` is the key below `console.health`. `url` is the address that was asked. */
    checks: { name: string; url: string; isOk: boolean }[];
    /** Of levels that are not recorded. `reach` in seconds; `room` is the number of calls that still fit into the store. Absent if they are not in the log. */
    calls: { isOk: boolean; reach: number; items: number; room: number | undefined } | undefined;
    deliveries: {
      id: string;
      state: string;
      isOk: boolean;
      backlog: number;
      rejected: number;
      lost: number;
      fields: ConsoleField[];
    }[];
    /** The signing keys. */
    items: ConsoleItem[];
    /** The page of the settings. Absent if the administrator may not reload them. */
    settings?: string;
    /** The names of processes with other settings. */
    differing: readonly string[];
  };
  'console/new-connector': {
    console: ConsoleLayout;
    /** The form has not all settings of the other connector, because the settings lack its level or MCP server. */
    isPartial?: boolean;
    form: CreateForm;
    /** What the list of tools in the form would open, if that was asked for. */
    opens: readonly ConsoleField[];
  };
  /** The form to change a record. */
  'console/edit': {
    console: ConsoleLayout;
    name: string;
    back: string;
    form: CreateForm;
    /** Hidden fields with the values that the form is shown with. */
    shown: ConsoleHidden[];
    /** What somebody changed while the form was open. */
    meanwhile: ConsoleDifference[];
    /** The id of the field that is wrong, or `other`. */
    problem?: string;
  };
  /** What a change would do, before it is made. */
  'console/edit-effect': ConsoleAffected & {
    console: ConsoleLayout;
    name: string;
    /** The page of the record. */
    back: string;
    /** The page of the form, and the path to post to, with `hidden` and `confirm=yes`. */
    action: string;
    hidden: ConsoleHidden[];
    changes: ConsoleDifference[];
    /** What its list of tools would open. */
    opens: readonly ConsoleField[];
  };
  /** What reading the settings again would change. `changed` and the others are names. */
  'console/settings': ConsoleAffected & {
    console: ConsoleLayout;
    changed: readonly string[];
    notReloadable: readonly string[];
    unanswered: readonly string[];
    /** The names of minted tokens that would stop or lose tools. */
    tokens: readonly string[];
    /** Why it would be refused. `kind` is the key below `console.settings.problems`. */
    problem?: { kind: string; lines: readonly string[] };
    /** The path of the form, and of the page that it came from. */
    action: string;
    back: string;
  };
  'console/new-machine': {
    console: ConsoleLayout;
    /** `href` is the page of the connector. */
    connector: { name: string; href: string };
    form: CreateForm;
  };
  'console/machine': {
    console: ConsoleLayout;
    done: 'created' | 'replaced';
    /** The secret is shown only once, and absent if the machine has a key. `href` is its page. */
    machine: {
      id: string;
      name: string;
      link: string;
      level: string;
      expiresAt: number;
      href: string;
      secret?: string;
    };
    /** Commands that connect it. */
    example: string;
    /** The path of the list of apps. */
    back: string;
  };
  'console/connector': {
    console: ConsoleLayout;
    connector: { name: string; link: string; state: string; fields: ConsoleField[] };
    /** How to add the link to each app. Empty if the link no longer works. */
    instructions: Instruction[];
    /** The address of the page where people see and disconnect their apps. */
    account: string;
    /** What the audit log says about it. */
    audit: string;
    connections: ConsoleConnection[];
    ended: ConsoleConnection[];
    /** The list of all connections, if the page shows only some. */
    allConnections?: string;
    /** The page to change it. Absent if the person may not, or it has ended. */
    edit?: string;
    /** The path to post to: `revoke` for a working connector, `delete` for any other. Neither if the person may not do it. */
    revoke?: string;
    delete?: string;
    /** The page to create a machine for it. Absent if the person may not, or the link no longer works. */
    newMachine?: string;
    /** The page to create a connector with the same settings. Absent if the person may not. */
    createSame?: string;
  };
  /** One person, app or connection: `console.section` says which. */
  'console/record': {
    console: ConsoleLayout;
    /** Absent for a person whose data was deleted. */
    title?: string;
    /** Whose connection it is. */
    owner?: string;
    /** The list that has the record. */
    back: string;
    /** The keys below `console.states` and `console.meanings`. */
    state: string;
    isOk: boolean;
    meaning: string;
    stateSince?: number;
    /** The person is the signed-in administrator. */
    isYou?: boolean;
    fields: ConsoleField[];
    actions: ConsoleAction[];
    /** The page to change a machine. */
    edit?: string;
    /** The form to block all apps with the name of this one, which leads to a page that asks. */
    block?: { action: string; name: string; returnTo: string };
    /** Those that have not ended; only the connection itself on its page. */
    connections: ConsoleConnection[];
    /** Those that ended in the last 30 days. Absent on the page of a connection. */
    ended?: ConsoleConnection[];
    /** The list of all connections, if the page shows only some. */
    allConnections?: string;
    /** The tokens and machines that a person created and that are not revoked or expired. `isAll` is false if there are too many to list. */
    created?: { items: ConsoleItem[]; isAll: boolean };
    /** What a person gets through each connector. Only on the page of a person. */
    access?: ConsoleItem[];
    /** How many other connectors there are. */
    otherAccess?: number;
    /** The limits on calls that apply, and what was used. `kind` is a key below `console.limits.kinds`. */
    limits?: {
      kind: string;
      of?: string;
      calls: string;
      used: number;
      most: number;
      resetsAt?: number;
    }[];
    /** Accounts at MCP servers. Only on the page of a person. */
    credentials?: ConsoleItem[];
    /** Apps that are kept out. Only on the page of a person. */
    keptOut?: ConsoleItem[];
    /** The last attempts to connect, and the list of all. Only on the pages of a person and an app. */
    attempts?: { items: ConsoleItem[]; all: string };
    /** Times at which the connection was refused. Only on the page of a connection. */
    refusals?: { time: number; reason: ConsoleReason }[];
    /** The newest first. */
    history: ConsoleEvent[];
    /** The audit log of this record. */
    allHistory: string;
  };
  /** The operator's MCP servers. Names and titles of tools are what each server states. */
  'console/servers': {
    console: ConsoleLayout;
    servers: {
      id: string;
      name: string;
      url: string;
      /** The key below `console.servers`. */
      state: 'answers' | 'fails' | 'untried' | 'paused';
      seenAt?: number;
      /** `fault` is the key below `console.servers.faults`. */
      error?: { fault: string; message: string };
      /** The tools that each level can call, and how many connectors and minted tokens have it. */
      levels: { level: string; tools: number; connectors: number; tokens: number }[];
      /** Tools in the settings that the server lacks. */
      missing: string[];
      /** Names of connectors that open no tool. */
      empty: string[];
      tools: ConsoleTool[];
      /** The page of what changed. */
      review: string;
      /** How many changes wait there. */
      changes: number;
      /** Calls of people have a credential of each person. */
      credential?: {
        /** The key below `console.servers.credentials`. */
        kind: 'oauth' | 'exchange' | 'key';
        redirectUri?: string;
        /** Since when the tools are read with an account of the operator. */
        readSince?: number;
        /** Tools are known when somebody has connected an account. */
        isNeeded: boolean;
        /** The action that makes an address where an account of the operator is connected. */
        connect?: string;
        /** That address, when it was made. */
        address?: string;
      };
    }[];
  };
  /** What a person may use through a connector, or through what a tool can be reached. `question` is the key below `console.toolAccess`. */
  'console/tool-access': {
    console: ConsoleLayout;
    back: { href: string; text: string };
    question: 'person' | 'tool';
    names: Record<string, string>;
    /** The highest that the person may grant, or the one that the tool needs. Without it, `noLevel` is the key of the reason. */
    level?: string;
    noLevel?: string;
    /** When the tools of the server were read. */
    readAt?: number;
    /** The page where the tool can be approved. */
    review?: string;
    /** None if nobody can use the tool. `most`: there are more than so many. */
    sections: { of: string; items: ConsoleItem[]; most?: number }[];
  };
  /** What a server changed in its tools. Texts have their invisible characters written out. */
  'console/review': {
    console: ConsoleLayout;
    server: string;
    isHeld: boolean;
    mayApprove: boolean;
    /** What the forms send, as JSON. */
    changes: {
      /** Undefined for the instructions. */
      name?: string;
      /** When it was first seen. */
      since?: number;
      /** As callers have it now. */
      tool?: ConsoleTool | undefined;
      /** The key below `console.review`. */
      change: 'new' | 'changed' | 'removed';
      isAlert: boolean;
      similarTo: readonly string[];
      isTwice: boolean;
      /** A lower level opens it: the names of what gains it. */
      gains?: { before: string; after: string; through: readonly string[]; more?: number };
      differences: readonly {
        path: string;
        before?: string;
        after?: string;
        /** The key below `console.review.suspicions`. */
        suspicion?: string;
      }[];
      approval: string;
    }[];
    more: number;
    /** Approves all of `changes`. Undefined if there is but one. */
    all?: string;
    action: string;
    back: string;
  };
  /** The choice of an identity provider if there are several. */
  'console/sign-in': { providers: { name: string; href: string }[] };
  'console/signed-out': {
    reason: 'signed-out' | 'not-administrator';
    /** Of somebody who is not an administrator: who is signed in, and the address of the connected apps. */
    person?: string;
    account?: string;
    signIn: string;
  };
};
