/** The restore changed nothing. The message is for the operator. */
export class RestoreRefused extends Error {
  override name = 'RestoreRefused';
  /** Whether the command was used wrongly. */
  readonly isUsage: boolean;

  constructor(message: string, { isUsage = false }: { isUsage?: boolean } = {}) {
    super(message);
    this.isUsage = isUsage;
  }
}
