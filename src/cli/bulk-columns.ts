// Bulk actions as rows of a table.

import { formatFilter } from '../core/filter-format.js'
import type { BulkState, BulkView } from '../core/operating.js'
import { shortId } from './job-ids.js'
import type { Column } from './table.js'
import type { Format } from './terminal.js'
import { whenText } from './times.js'

/** The colour of each state of a bulk action. */
export const BULK_FORMAT: Readonly<Record<BulkState, Format>> = {
  waiting: 'cyan',
  running: 'blue',
  done: 'green',
  cancelled: 'dim',
  failed: 'red',
}

export const BULK_COLUMNS: readonly Column<BulkView>[] = [
  { name: 'id', text: ({ id }, { isShort }) => (isShort ? shortId(id) : id) },
  { name: 'state', text: ({ state }) => state, format: ({ state }) => BULK_FORMAT[state] },
  { name: 'action', text: ({ action }) => action },
  { name: 'done', text: ({ done }) => done.toLocaleString('en'), side: 'right' },
  { name: 'refused', text: ({ refused }) => refused.toLocaleString('en'), side: 'right' },
  {
    name: 'expected',
    text: ({ expected }) =>
      expected === null ? '-' : `${expected.isExact ? '' : '≥'}${expected.count.toLocaleString('en')}`,
    side: 'right',
  },
  { name: 'by', text: ({ by }) => by, isLong: true },
  { name: 'created', isSpare: true, text: ({ createdAt }, look) => whenText(createdAt, look) },
  { name: 'updated', text: ({ updatedAt }, look) => whenText(updatedAt, look), isExtra: true },
  { name: 'pace', text: ({ perSecond }) => (perSecond === null ? '-' : `${perSecond}/s`), isExtra: true },
  { name: 'filter', text: ({ filter }) => formatFilter(filter), isLong: true },
  { name: 'error', text: ({ error }) => error ?? '-', isExtra: true },
]
