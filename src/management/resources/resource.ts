// What describes a resource once, for its three renderers: the API (`api/`), the command line (`commands/`) and the console (`console/`).
import * as z from 'zod';
import type { Levels } from '../../permission-levels.ts';
import type { ManagementRole } from '../../settings/management-roles.ts';
import type { ManagementClient } from '../api/client.ts';
import type { ApiResponse, OperationName } from '../api/operations.ts';
import type { Section } from '../console/layout.ts';
import type { Fields } from './fields.ts';

/** A route of the API. */
export type Operation = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Below `API_PATH`. The only path parameter is `:id`. */
  path: string;
  summary: string;
  /** The lowest role that may use the operation, in the API and in the console. */
  role: ManagementRole;
  query?: z.ZodObject;
  /** Takes the current time in seconds, because expiry times must be in the future. */
  body?: (now: number, levels: Levels) => z.ZodType;
  /** Treats a missing body as `{}`. */
  isBodyOptional?: true;
  /** The body is a file: the handler parses it, to name the problems of all its records at once. */
  isFile?: true;
  /** The largest body. Default: 64 kB. */
  maxBodyBytes?: number;
  /** How long a client waits for the response. Default: 15. */
  timeoutSeconds?: number;
  /** 200 if absent. */
  status?: 201;
  response: z.ZodType;
  /** The media type of a response that is sent piece by piece, without limit: `TEXT_STREAM` in `response`. By the `format` in the query if there are several. */
  stream?: string | Readonly<Record<string, string>>;
  /** Status and description of errors that other operations do not have. */
  errors?: Record<number, string>;
  /** Returns the path of the created resource, below `API_PATH`. */
  location?: (created: { id: string }) => string;
  /** Returns the entity tag of the response. It changes only with what an administrator can change. */
  etag?: (response: never) => string;
};

/** The response of an operation with a `stream`. */
export const TEXT_STREAM = z.custom<AsyncIterable<string>>();

/** Of operations with an id in the body. Those with one in the path have it anyway. */
export const NOT_FOUND = { 404: 'The resource does not exist.' };

/** The commands of a resource: `gatehouse <noun> <command>`. */
export type ResourceCommands = {
  noun: string;
  description: string;
  examples: string;
  commands: readonly Command[];
};

/** What a command takes to say which record it is about. */
export type Argument = {
  name: string;
  help: string;
  /** Returns the id of the record. Default: the argument is the id. */
  resolve?: (api: ManagementClient, argument: string) => Promise<string>;
};

export type Options = Readonly<Record<string, unknown>>;

export type CommandOption = {
  /** As in `--name <name>`. Shell completion recognizes the name of the value. */
  flags: string;
  help: string;
  isRequired?: true;
  choices?: readonly string[];
  /** Gets the value of earlier options with the same name. */
  parse?: (text: string, earlier: never) => unknown;
  /** The member of the query or body that it sets. Default: the name of the option. */
  member?: string;
  /** The word in place of a value that removes the member. */
  removal?: string;
  /** Returns the members that it sets instead. */
  members?: (value: never, api: ManagementClient, options: Options) => object | Promise<object>;
};

type CommandBase = {
  name: string;
  description: string;
  help?: string;
  argument?: Argument;
  options?: readonly CommandOption[];
  /** The operation that `--format csv` writes to standard output. */
  csv?: CsvOperation;
  lines?: undefined;
};

/** Operations that send CSV. */
export type CsvOperation = 'exportGrants';

type Given = { id: string; options: Options };

type CommandOf<Name extends OperationName> = CommandBase & {
  operation: Name;
  /** Sends other requests than the one of the operation. */
  run?: (api: ManagementClient, given: Given) => Promise<ApiResponse<Name>>;
  /** Of a command that does not fail. Default: 0. */
  exitCode?: (response: ApiResponse<Name>) => number;
} & Shown<ApiResponse<Name>>;

/** A command whose result is that of no operation. */
type OtherCommand = CommandBase & {
  operation?: undefined;
  run: (api: ManagementClient, given: Given) => Promise<unknown>;
  text: (result: never, options: Options) => string;
};

/** A command that writes lines of JSON to standard output as they arrive. */
type StreamCommand = Omit<CommandBase, 'csv' | 'lines'> & {
  operation?: undefined;
  run?: undefined;
  csv?: undefined;
  lines: (api: ManagementClient, given: Given) => Promise<AsyncIterable<string>>;
};

/** What a command prints without --json. */
type Shown<Response> =
  | { text: (response: Response, options: Options) => string }
  | (Response extends { items: (infer Item)[] } ? ListShown<Item> : never);

type ListShown<Item> = {
  fields: Fields<Item>;
  columns: string;
  empty: string | ((options: Options) => string);
  /** Orders the result. */
  sort?: (items: readonly Item[]) => Item[];
  /** Orders what people read. */
  sortShown?: (items: readonly Item[]) => Item[];
};

export type ResultCommand =
  { [Name in OperationName]: CommandOf<Name> }[OperationName] | OtherCommand;

export type Command = ResultCommand | StreamCommand;

/** A list in the console, with the texts of its section. */
export type ConsoleList<Item> = {
  section: Section;
  operation: OperationName;
  /** The part of the records that the list has: members of the query. */
  only?: Readonly<Record<string, string>>;
  /** The states that they can have. Default: those of the operation. */
  states?: readonly string[];
  /** Where the filter has their texts. Default: those of the states. */
  stateTexts?: string;
  /** The operation that reads one of its records. Default: `operation` with its id. */
  show?: OperationName;
  /** Items on a page. */
  limit: number;
  title: (item: Item) => string;
  /** The key of the meaning of a code in the title. */
  titleKey?: (item: Item) => string | undefined;
  href?: (item: Item) => string | undefined;
  state: (item: Item) => string;
  isOk: (item: Item) => boolean;
  fields: Fields<Item>;
  /** The names of the fields beside the title, and of those behind “Details”. */
  facts: string;
  details?: string;
  /** Orders a list that is read as a whole. A longer one has the order that its pages are read in. */
  sort?: (items: readonly Item[]) => readonly unknown[];
  /** The column that `sort` orders by, if it is one. */
  order?: string;
  /** Whether rows show who connected the app. Only for lists of apps. */
  withPeople?: boolean;
  /** The operation and the page to change an item that has no page of its own. */
  edit?: { operation: OperationName; path: (item: Item) => string };
  /** The operation of the button to create one, on the page `new`. */
  create?: OperationName;
  /** The operation of the button that downloads what the filters find. */
  csv?: CsvOperation;
  /** The operation of the form to block apps. */
  block?: OperationName;
  actions?: readonly ConsoleAction<Item>[];
};

/** A button of a record. The form is posted to `path` below the section with the id of the record. */
export type ConsoleAction<Item> = {
  path: string;
  operation: OperationName;
  /** Other members of the body, and the query. */
  body?: object;
  query?: object;
  /** The key of its texts below `console.actions`. Undefined if the action is not offered. */
  button: (item: Item) => string | undefined;
  /** What the action adds to the rules. */
  rule?: (item: Item) => { name: string; destinations: string[] };
  /** Also for several records of the list at once. At most one action of a list. */
  several?: true;
  /** Whether the page of the record still exists afterwards. Default: yes. */
  keepsPage?: (item: Item) => boolean;
  /** The key, below `console.done`, of the message shown afterwards. */
  done: string;
};
