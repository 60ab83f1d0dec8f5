// How fast a bulk action goes: without a limit, or a number of jobs a second that protects what the jobs call.

import { type ReactNode, useState } from 'react'
import { InputField } from '../../parts/field.js'
import { Segments } from '../../parts/segments.js'

const RATES = [
  { value: 'all', text: 'No limit' },
  { value: '1', text: '1/s' },
  { value: '10', text: '10/s' },
  { value: '100', text: '100/s' },
  { value: 'own', text: 'Other' },
] as const

type Rate = (typeof RATES)[number]['value']

const RATE_MAX = 10_000

export function RateField({
  value,
  onChange,
}: {
  readonly value: number | null
  readonly onChange: (perSecond: number | null) => void
}): ReactNode {
  const [rate, setRate] = useState<Rate>('all')
  const choose = (next: Rate) => {
    setRate(next)
    onChange(next === 'all' ? null : next === 'own' ? (value ?? 25) : Number(next))
  }
  return (
    <div className="rate">
      <span className="rate-label">Rate</span>
      <Segments label="Rate" choices={RATES} value={rate} onChange={choose} />
      {rate === 'own' ? (
        <InputField
          label="Jobs per second"
          hint={`1 to ${RATE_MAX}`}
          type="number"
          min={1}
          max={RATE_MAX}
          value={value ?? ''}
          onText={(text) => onChange(Math.min(RATE_MAX, Math.max(1, Math.floor(Number(text) || 1))))}
        />
      ) : null}
    </div>
  )
}
