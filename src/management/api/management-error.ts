/** `code` is the error code of the API, or `unreachable`, `timeout` or `not_gatehouse` without a response from the API. */
export class ManagementError extends Error {
  readonly code: string;
  /** The problems of a file, each with its place. */
  readonly issues: readonly string[];

  constructor(
    code: string,
    message: string,
    { issues = [], ...options }: ErrorOptions & { issues?: readonly string[] } = {},
  ) {
    super(message, options);
    this.name = 'ManagementError';
    this.code = code;
    this.issues = issues;
  }
}
