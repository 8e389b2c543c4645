// A store whose process ends after some writes: nothing of it is read or written any more.

export type Dying<S> = { store: S; isDead: () => boolean };

const READS = /^(get|members|includes|page|range|read|last|log|ping|freeBytes)/;

/** `writes`: how many are done before the process ends. */
export function dyingStore<S extends object>(store: S, writes: number): Dying<S> {
  let left = writes;
  const isDead = () => left < 0;
  const wrap = <O extends object>(target: O): O =>
    new Proxy(target, {
      get(object, name) {
        const member: unknown = Reflect.get(object, name);
        if (typeof member === 'object' && member !== null) return wrap(member);
        if (typeof member !== 'function') return member;
        return (...given: unknown[]): unknown => {
          if (!READS.test(String(name))) left -= 1;
          if (isDead()) return Promise.reject(new Error('the process has ended'));
          return Reflect.apply(member, object, given);
        };
      },
    });
  return { store: wrap(store), isDead };
}
