// Values that refuse to be asked for what no page is ever told, so that a misspelt name in a template is found and not left blank.

/** `known` are values of the same kind: what one of them has may be asked for although `values` does not have it. */
export function strictly(values: object, known: readonly unknown[], path = 'page'): object {
  return new Proxy(values, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof key === 'symbol') return value;
      const others = known.filter(isObject);
      if (!(key in target) && !others.some((other) => key in other))
        throw new Error(`${path}.${key} is not among the values of this page`);
      if (!isObject(value)) return value;
      return strictly(
        value,
        others.flatMap((other) => below(other, key, Array.isArray(target))),
        `${path}.${key}`,
      );
    },
  });
}

/** The members of a list are all alike. */
function below(other: object, key: string, isList: boolean): unknown[] {
  return isList && Array.isArray(other) ? other : [Reflect.get(other, key)];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
