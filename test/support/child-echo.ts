/** The program that child.test.ts runs: says what it is told, and ends as it is told. */
import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })
const say = (event: object): void => console.log(JSON.stringify(event))

say({ event: 'ready', arguments: process.argv.slice(2) })
lines.on('line', (line) => {
  const command: { do: string; value?: unknown } = JSON.parse(line)
  switch (command.do) {
    case 'echo':
      say({ event: 'echo', value: command.value })
      break
    case 'mumble':
      console.log('not an event')
      break
    case 'reject':
      void Promise.reject(new Error('nobody handles this'))
      break
    case 'end':
      process.exitCode = 7
      lines.close()
      process.stdin.destroy()
      break
  }
})
