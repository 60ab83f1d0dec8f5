import { describe, expect, test } from 'vitest'
import { serversOf } from '../../src/core/server-list.js'

describe('the servers of a PostgreSQL URL', () => {
  test.each([
    ['one host is left as it is', 'postgres://a:p@h:1/db?x=y', ['postgres://a:p@h:1/db?x=y']],
    ['no host is left as it is', 'postgresql:///db', ['postgresql:///db']],
    [
      'several hosts have ports of their own',
      'postgres://a:p%40@h1:5433,h2,10.0.0.3:5434/db?target_session_attrs=read-write',
      ['h1:5433', 'h2', '10.0.0.3:5434'].map((host) => `postgres://a:p%40@${host}/db?target_session_attrs=read-write`),
    ],
    [
      'IPv6 addresses are in brackets',
      'postgres://[::1]:1,[fe80::2]/db',
      ['postgres://[::1]:1/db', 'postgres://[fe80::2]/db'],
    ],
    [
      'a folder of sockets is percent-encoded',
      'postgres://%2Fvar%2Frun,h2/db',
      ['postgres://%2Fvar%2Frun/db', 'postgres://h2/db'],
    ],
    ['a host that is named twice is asked once', 'postgres://h1,h1/db', ['postgres://h1/db']],
    [
      'a password may contain an @',
      'postgres://a:p@ss@h1,h2/db',
      ['postgres://a:p@ss@h1/db', 'postgres://a:p@ss@h2/db'],
    ],
  ])('%s', (_, url, urls) => {
    expect(serversOf(url)).toEqual({ urls })
  })

  test('a list of hosts replaces that of the URL', () => {
    expect(serversOf('postgres://a@old:1/db', ['h1:5432', '[::1]'])).toEqual({
      urls: ['postgres://a@h1:5432/db', 'postgres://a@[::1]/db'],
    })
  })

  test.each([
    ['an empty host', 'postgres://h1,,h2/db', undefined, 'host 2 of 3'],
    ['a bad port', 'postgres://h1:99999,h2/db', undefined, 'host 1 of 2'],
    ['a host with a path', 'postgres://h/db', ['h1/x'], 'host 1 of 1'],
    ['a host that is no text', 'postgres://h/db', [7 as unknown as string], 'host 1 of 1'],
    ['no hosts', 'postgres://h/db', [], '1 to 16 hosts'],
    ['a standby on purpose', 'postgres://h1,h2/db?target_session_attrs=standby', undefined, 'a queue has to write'],
    ['hosts in two places', 'postgres://h1,h2/db?host=h3', undefined, 'host= and port= have no meaning'],
    ['hosts where one belongs', 'postgres:///db?host=h1,h2', undefined, 'between // and the database'],
    ['no PostgreSQL', 'mysql://h', undefined, 'must look like postgres://'],
  ])('%s cannot be used, and the reason is said', (_, url, hosts, why) => {
    expect(serversOf(url, hosts)).toEqual({ why: expect.stringContaining(why) })
  })
})
