// Lua as constants: whole and static, above the function that calls it. library.ts joins the pieces.

/** A piece of Lua, as it is written. */
export function lua(text: TemplateStringsArray): string {
  return String.raw(text)
}
