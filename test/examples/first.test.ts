/**
 * The first program, run as its own comment says: by plain node, with `mandate` imported by its name.
 */
import { expect, test } from 'vitest'
import { headerText, readCommittedLog } from '../../examples/demo/raw-log.js'
import { describeWithKafka } from '../kafka/suites.js'
import { Program } from './program.js'

describeWithKafka('the first program', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  test('leads, sends guarded records, and hands over when it is interrupted', async () => {
    const programs = [new Program('examples/first.mjs', cluster().bootstrap)]
    const [first] = programs
    try {
      if (first === undefined) throw new Error('no program')
      const [, term = '', token] = await first.line(/^leading: term (\d+), token (\d+:\d+)$/)
      const [, offset = ''] = await first.line(/^sent: hello 2, at offset (\d+)$/)
      const second = new Program('examples/first.mjs', cluster().bootstrap)
      programs.push(second)
      await second.line(/waits for its turn$/)
      first.signal('SIGINT')
      expect(await first.ended, first.output).toBe(0)
      expect(first.lines.at(-1)).toBe('resigned')
      expect(first.stderr).toBe('')

      const [, nextTerm = ''] = await second.line(/^leading: term (\d+),/)
      expect(BigInt(nextTerm)).toBeGreaterThan(BigInt(term))
      await second.line(/^sent: hello 1,/)
      second.signal('SIGINT')
      expect(await second.ended, second.output).toBe(0)

      const records = await readCommittedLog(cluster().bootstrap, 'greetings')
      const sent = records.filter((record) => headerText(record, 'mandate-term') === term)
      expect(sent.find((record) => record.offset === BigInt(offset))?.value?.toString()).toBe('hello 2')
      expect(sent.every((record) => record.outcome === 'committed')).toBe(true)
      expect(sent.every((record) => headerText(record, 'mandate-token') === token)).toBe(true)
      expect(sent.every((record) => headerText(record, 'mandate-role') === 'greeter')).toBe(true)
    } finally {
      await Promise.all(programs.map((program) => program.end()))
    }
  })
})
