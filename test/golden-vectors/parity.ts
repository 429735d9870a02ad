/** The parity table of golden-vectors/README.md, as data: which shared rules are ours too, and where the others are seen to differ. */
import { readVectorsFile } from './vectors.js'

/** What a row says of a rule. */
export type Parity =
  | { readonly ours: 'equal' }
  /** `shown`: the vector, `file/id`, on which the library does something else. */
  | { readonly ours: 'differs'; readonly shown: string }

/** The rows of the table of rules that vectors hold, by rule. Throws where a row says neither `equal` nor where it differs. */
export function readParity(): ReadonlyMap<string, Parity> {
  const readme = readVectorsFile('README.md')
  const section = readme.split('\n### Rules that vectors hold\n')[1]?.split('\n#')[0] ?? ''
  const rows = section.split('\n').filter((line) => line.startsWith('| `'))
  const parity = new Map<string, Parity>()
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim())
    const [, rule = '', , , ours = ''] = cells
    if (cells.length !== 8) throw new Error(`This row has not six cells: ${row}`)
    parity.set(rule.replaceAll('`', ''), parityOf(ours))
  }
  return parity
}

function parityOf(cell: string): Parity {
  if (cell === 'equal') return { ours: 'equal' }
  const shown = /^differs: `((?:folds|decisions)\/[\w-]+)`\. \S/.exec(cell)?.[1]
  if (shown === undefined) throw new Error(`Neither "equal" nor "differs: \`file/id\`. How": ${cell}`)
  return { ours: 'differs', shown }
}
