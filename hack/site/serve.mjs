// Serves bin/site on loopback. As a program it takes the port.
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { preview } from 'vite'

const here = dirname(fileURLToPath(import.meta.url))

export async function serve(port) {
  const server = await preview({
    configFile: false,
    root: here,
    appType: 'mpa',
    base: process.env.SITE_BASE ?? '/',
    build: { outDir: join(here, '../../bin/site') },
    preview: { host: '127.0.0.1', port },
    logLevel: 'error',
  })
  return { url: server.resolvedUrls.local[0], close: () => server.close() }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve(Number(process.argv[2] ?? 4173))
  console.log(`The site is at ${url}`)
}
