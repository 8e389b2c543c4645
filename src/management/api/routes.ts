// What one route of the management API is: routes, validation and the OpenAPI document are all made of this.
import type { z } from 'zod';
import type { ManagementServices } from '../services.ts';

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
    services: ManagementServices,
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
