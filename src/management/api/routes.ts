// What one route of the management API is: routes, validation and the OpenAPI document are all made of this.
import type { z } from 'zod';
import type { Account } from '../../accounts/account.ts';
import type { ClientSettings } from '../../clients/clients.ts';
import type { Lifetimes } from '../../grants/grant-life.ts';
import type { Level } from '../../permission-level.ts';
import type { Store } from '../../store/store.ts';

/** What every action needs. Times and lifetimes are in seconds. */
export type ManagementTools = {
  store: Store;
  /** The issuer of minted tokens. */
  authUrl: string;
  /** What connect links start with. */
  resourceUrl: string;
  /** How long what a replaced signing key signed is good. */
  accessTokenLifetime: number;
  lifetimes: Lifetimes;
  /** How long the record of an account is kept after a sign-in. */
  accountLifetime: number;
  /** The absolute lifetime of a grant. */
  grantLifetime: number;
  /** The level that a person may hold. */
  entitledLevel: (account: Account) => Level | undefined;
  /** What the settings say of clients. */
  clients: ClientSettings;
  /** The account of the administrator who acts; absent for whoever has the management key. */
  by?: string;
  /** Seconds since the epoch. */
  now: () => number;
};

/** A request, validated. `id` is the one in the path, or empty. */
export type Given<Query = unknown, Body = unknown> = { id: string; query: Query; body: Body };

export type RouteOf<
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
> = {
  method: 'get' | 'post' | 'delete';
  /** Below `/api/v1`. */
  path: string;
  /** Names the operation in the document. */
  name: string;
  summary: string;
  query?: Query;
  /** Some input depends on the time. */
  body?: (now: number) => Body;
  /** No body is the same as `{}`. */
  isBodyOptional?: true;
  /** 200 unless it is said. */
  status?: 201;
  answer: Answer;
  /** Besides those that every route has: the status, and when. */
  refusals?: Record<number, string>;
  handle(
    tools: ManagementTools,
    given: Given<z.output<Query>, z.output<Body>>,
  ): Promise<z.input<Answer>>;
  /** Where what was created is, below `/api/v1`. */
  location?(answer: z.input<Answer>): string;
};

export type Route = RouteOf;

/** Holds the handler to what the route takes and answers. */
export function route<Query extends z.ZodObject, Body extends z.ZodType, Answer extends z.ZodType>(
  wanted: RouteOf<Query, Body, Answer>,
): Route {
  return wanted as unknown as Route;
}

export const NOT_FOUND = { 404: 'there is none with this id' };
