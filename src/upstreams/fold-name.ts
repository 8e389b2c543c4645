// Compares names as an upstream might that compares less strictly than we do.
/** Control characters and lone surrogates. */
export const UNSAFE = /[\p{Cc}\p{Cs}]/u;

/** Upper case first: JavaScript has no other case folding for ſ, ß and ı. */
export function foldName(name: string): string {
  const visible = name
    .normalize('NFKC')
    .replace(/[\s\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, '');
  return visible.toUpperCase().toLowerCase().normalize('NFKC');
}
