const PARTS = 3;
const NAMES = 1500;

/** An input schema whose compilation takes one to three seconds. The limits of schemas allow no longer one of this kind. */
export function slowToCompile(): object {
  const part = {
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: NAMES }, (_, n) => [
        `p${n}`,
        { type: 'string', not: { const: `p${n}` } },
      ]),
    ),
    unevaluatedProperties: false,
  };
  const parts = Array.from({ length: PARTS }, (_, n) => [`part${n}`, part]);
  return { type: 'object', properties: Object.fromEntries(parts) };
}
