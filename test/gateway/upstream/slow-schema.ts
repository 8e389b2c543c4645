/** An input schema that no machine compiles within a second. */
export function slowToCompile(): object {
  const names = Array.from({ length: 2000 }, (_, n) => `p${n}`);
  return {
    type: 'object',
    properties: Object.fromEntries(
      names.map((name) => [name, { type: 'string', not: { const: name } }]),
    ),
    unevaluatedProperties: false,
  };
}
