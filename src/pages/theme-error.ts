// The error of a theme that cannot be used: what is wrong, where, all at once.

/** Nothing was started. Each mistake begins with the file and, where there is one, the line. */
export class ThemeError extends Error {
  constructor(mistakes: readonly string[], options?: ErrorOptions) {
    super(
      ['The theme cannot be used:', ...mistakes.map((text) => `  ${text}`)].join('\n'),
      options,
    );
    this.name = 'ThemeError';
  }
}
