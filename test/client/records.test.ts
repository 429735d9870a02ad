import { expect, test } from 'vitest'
import { layOut, placeSend, positionsOf, prepareSend } from '../../src/client/records.js'
import { systemRuntime } from '../../src/runtime.js'

test('the positions of a send follow its messages and print as JSON', () => {
  const record = { topic: 'commands', messages: [1, 0, 1].map((partition) => ({ partition, value: 'open' })) }
  const layout = layOut([placeSend(prepareSend(record, [], systemRuntime), 2, 0)])
  const offsets = layout.entries.map(({ partition }) => (partition === 1 ? [7n, 9_007_199_254_740_993n] : [3n]))

  const positions = positionsOf(layout, 0, offsets)

  expect(positions).toEqual([
    { topic: 'commands', partition: 1, offset: 7n },
    { topic: 'commands', partition: 0, offset: 3n },
    { topic: 'commands', partition: 1, offset: 9_007_199_254_740_993n },
  ])
  expect(JSON.parse(JSON.stringify(positions))).toEqual([
    { topic: 'commands', partition: 1, offset: '7' },
    { topic: 'commands', partition: 0, offset: '3' },
    { topic: 'commands', partition: 1, offset: '9007199254740993' },
  ])
})
