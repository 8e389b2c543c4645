/** `code` is the error code of the API, or `unreachable`, `timeout` or `not_gatehouse` without a response from the API. */
export class ManagementError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ManagementError';
    this.code = code;
  }
}
