// Limits the bytes of messages that are held in memory: for each caller, and in all, in this process.
import { limitReached } from './in-band-error.ts';

export type HeldBytesOptions = {
  perCaller: number;
  inAll: number;
  /** The size of the largest message. One such message is always possible. */
  largest: number;
};

/** The bytes of one message. */
export type Hold = {
  /**
   * Changes the bytes. Returns undefined if they are granted at once, otherwise a promise: wait for it before you take more. It rejects
   * with an InBandError after WAIT_MS. The next call ends the wait.
   */
  set(bytes: number): Promise<void> | undefined;
  /** Gives back what is above. Ends a wait, too. */
  reduce(bytes: number): void;
  /** What is granted. */
  readonly bytes: number;
  /** Ends a wait, too, which then never settles. */
  release(): void;
};

export type HeldBytes = {
  /** `caller` identifies the requests that share a limit. */
  hold(caller: string): Hold;
};

/** Not counted, because the number of open calls limits small messages, and nearly all are small. */
const UNCOUNTED_BYTES = 16 * 1024;
/** A caller who holds no more can use what is kept free for the largest message of others. */
const MODEST_BYTES = 1024 * 1024;
const WAIT_MS = 5000;
const RETRY_AFTER_SECONDS = 5;

/**
 * Messages share `limit` bytes without `largest`. When these are used up, one message at a time may use the rest: it never waits for another
 * one, so that messages that grow at the same time cannot block each other for ever.
 */
class Budget {
  readonly #shared: number;
  readonly #limit: number;
  #used = 0;
  #last: object | undefined;

  constructor(limit: number, largest: number) {
    this.#limit = limit;
    this.#shared = Math.max(limit - largest, limit / 4);
  }

  get used(): number {
    return this.#used;
  }

  /** Whether `holder` can have so many more bytes. */
  allows(holder: object, more: number, isModest = false): boolean {
    if (this.#used + more <= (isModest ? this.#limit : this.#shared)) return true;
    return this.#last === undefined || this.#last === holder;
  }

  take(holder: object, more: number): void {
    this.#used += more;
    if (this.#used > this.#shared) this.#last ??= holder;
  }

  giveBack(holder: object, less: number, isLast: boolean): void {
    this.#used -= less;
    if ((this.#last === holder && isLast) || this.#used <= this.#shared) this.#last = undefined;
  }
}

/** What all holds share. */
type Budgets = {
  all: Budget;
  perCaller: () => Budget;
  callers: Map<string, Budget>;
  waiting: Set<MessageHold>;
};

export function heldBytes({ perCaller, inAll, largest }: HeldBytesOptions): HeldBytes {
  const budgets: Budgets = {
    all: new Budget(inAll, largest),
    perCaller: () => new Budget(perCaller, largest),
    callers: new Map(),
    waiting: new Set(),
  };
  return { hold: (caller) => new MessageHold(caller, budgets) };
}

class MessageHold implements Hold {
  readonly #caller: string;
  readonly #budgets: Budgets;
  #counted = 0;
  #own: Budget | undefined;
  #wait: { bytes: number; timer: NodeJS.Timeout; resolve: () => void } | undefined;

  constructor(caller: string, budgets: Budgets) {
    this.#caller = caller;
    this.#budgets = budgets;
  }

  set(bytes: number): Promise<void> | undefined {
    const wanted = bytes <= UNCOUNTED_BYTES ? 0 : bytes;
    this.reduce(wanted);
    if (wanted === this.#counted || this.#take(wanted)) return undefined;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#stopWaiting();
        reject(tooMuchHeld());
      }, WAIT_MS);
      this.#wait = { bytes: wanted, timer, resolve };
      this.#budgets.waiting.add(this);
    });
  }

  get bytes(): number {
    return this.#counted;
  }

  reduce(bytes: number): void {
    const wait = this.#wait;
    this.#stopWaiting();
    wait?.resolve();
    if (bytes < this.#counted) this.#giveBack(bytes);
  }

  release(): void {
    this.#stopWaiting();
    if (this.#counted > 0) this.#giveBack(0);
  }

  #take(bytes: number): boolean {
    const { all, callers, perCaller } = this.#budgets;
    const more = bytes - this.#counted;
    const own = this.#own ?? callers.get(this.#caller) ?? perCaller();
    const isModest = own.used + more <= MODEST_BYTES;
    if (!own.allows(this, more) || !all.allows(this, more, isModest)) return false;
    callers.set(this.#caller, own);
    own.take(this, more);
    all.take(this, more);
    this.#own = own;
    this.#counted = bytes;
    return true;
  }

  #giveBack(bytes: number): void {
    const { all, callers, waiting } = this.#budgets;
    const less = this.#counted - bytes;
    this.#own?.giveBack(this, less, bytes === 0);
    all.giveBack(this, less, bytes === 0);
    this.#counted = bytes;
    if (this.#own?.used === 0) callers.delete(this.#caller);
    if (bytes === 0) this.#own = undefined;
    for (const other of waiting) other.#retry();
  }

  #retry(): void {
    const wait = this.#wait;
    if (!wait || !this.#take(wait.bytes)) return;
    this.#stopWaiting();
    wait.resolve();
  }

  #stopWaiting(): void {
    if (!this.#wait) return;
    clearTimeout(this.#wait.timer);
    this.#wait = undefined;
    this.#budgets.waiting.delete(this);
  }
}

function tooMuchHeld(): Error {
  return limitReached(
    'your requests and the responses that your app has not read yet are too large together: send less at the same time',
    RETRY_AFTER_SECONDS,
  );
}
