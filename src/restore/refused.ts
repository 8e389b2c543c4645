/** The restore does not go on. The message is for the operator, and says so if it has changed something already. */
export class RestoreRefused extends Error {
  override name = 'RestoreRefused';
  /** Whether the command was used wrongly. */
  readonly isUsage: boolean;

  constructor(message: string, { isUsage = false }: { isUsage?: boolean } = {}) {
    super(message);
    this.isUsage = isUsage;
  }
}
