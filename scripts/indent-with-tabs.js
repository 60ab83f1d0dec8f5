// The compiler indents with four blanks, a tenth of the package. One tab for four says the same.
import ts from 'typescript'

/** The code with tabs. Lines that begin inside a template stay as they are: their blanks are part of a text. */
export function indentWithTabs(code) {
  const source = ts.createSourceFile('code.js', code, ts.ScriptTarget.Latest, false, ts.ScriptKind.JS)
  const lines = source.getLineStarts()
  const kept = new Set()
  const visit = (node) => {
    if (ts.isTemplateLiteralToken(node)) {
      const first = source.getLineAndCharacterOfPosition(node.getStart(source)).line
      const last = source.getLineAndCharacterOfPosition(node.end).line
      for (let line = first + 1; line <= last; line++) kept.add(line)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return lines
    .map((start, line) => code.slice(start, lines[line + 1] ?? code.length))
    .map((text, line) =>
      kept.has(line) ? text : text.replace(/^(?: {4})+/, (blanks) => '\t'.repeat(blanks.length / 4)),
    )
    .join('')
}
