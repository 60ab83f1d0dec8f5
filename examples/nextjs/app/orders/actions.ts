'use server'

// The same as a server action: <form action={placeOrder}>.

import { holdfast } from '../../lib/holdfast'
import { shipOrder } from '../../lib/jobs'

export async function placeOrder(form: FormData): Promise<{ id: string }> {
  const order = { item: String(form.get('item')), count: Number(form.get('count')) }
  const { id } = await (await holdfast()).enqueue(shipOrder, order)
  return { id }
}
