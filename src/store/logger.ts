// What the store needs of a logger; a pino logger fits.

export type Logger = {
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
};
