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
  /** Gives back all, for good: what is set later counts nothing. Ends a wait, too, which then never settles. */
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
 * Messages share `limit` bytes without `largest`. When these are used up, one message at a time, the last, may use the rest: it never waits for
 * another one, so that messages that grow at the same time cannot block each other for ever.
 */
class Budget {
  readonly #shared: number;
  readonly #limit: number;
  used = 0;
  last: MessageHold | undefined;

  constructor(limit: number, largest: number) {
    this.#limit = limit;
    this.#shared = Math.max(limit - largest, limit / 4);
  }

  /** Whether the messages share so many more bytes. */
  shares(more: number): boolean {
    return this.used + more <= this.#shared;
  }

  /** Whether so many more bytes are below the limit. */
  has(more: number): boolean {
    return this.used + more <= this.#limit;
  }

  canBeLast(holder: MessageHold): boolean {
    return this.last === undefined || this.last === holder;
  }

  giveBack(holder: MessageHold, less: number, isEmpty: boolean): void {
    this.used -= less;
    if (this.shares(0) || (this.last === holder && isEmpty)) this.last = undefined;
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
  #isReleased = false;
  #own: Budget | undefined;
  #wait: { bytes: number; timer: NodeJS.Timeout; resolve: () => void } | undefined;

  constructor(caller: string, budgets: Budgets) {
    this.#caller = caller;
    this.#budgets = budgets;
  }

  set(bytes: number): Promise<void> | undefined {
    const wanted = bytes <= UNCOUNTED_BYTES || this.#isReleased ? 0 : bytes;
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
    this.#isReleased = true;
    this.#stopWaiting();
    if (this.#counted > 0) this.#giveBack(0);
  }

  #take(bytes: number): boolean {
    const { all, callers, perCaller } = this.#budgets;
    const more = bytes - this.#counted;
    const own = this.#own ?? callers.get(this.#caller) ?? perCaller();
    const { last } = all;
    const isOwnShared = own.shares(more);
    if (!isOwnShared) {
      // The last of all and another last of its caller could wait for each other.
      const isOtherLastOfAll = last !== undefined && last !== this && last.#own === own;
      if (isOtherLastOfAll || !own.canBeLast(this)) return false;
    }
    const isLastOfAll = !all.shares(more) && all.canBeLast(this) && own.canBeLast(this);
    const isModest = own.used + more <= MODEST_BYTES && all.has(more);
    if (!all.shares(more) && !isLastOfAll && !isModest) return false;
    if (!isOwnShared) own.last = this;
    if (isLastOfAll) all.last = this;
    callers.set(this.#caller, own);
    own.used += more;
    all.used += more;
    this.#own = own;
    this.#counted = bytes;
    return true;
  }

  #giveBack(bytes: number): void {
    const { all, callers, waiting } = this.#budgets;
    const less = this.#counted - bytes;
    const isEmpty = bytes === 0;
    this.#counted = bytes;
    all.giveBack(this, less, isEmpty);
    this.#own?.giveBack(this, less, isEmpty);
    if (this.#own?.used === 0) callers.delete(this.#caller);
    if (isEmpty) this.#own = undefined;
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
