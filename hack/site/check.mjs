// Fails for links and anchors of the built site that lead nowhere, and for what a page would load from another host.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

export function check(folder, base) {
  const files = readdirSync(folder, { recursive: true })
  const known = new Set(files)
  const pages = new Map(files.filter(f => f.endsWith('.html')).map(f => [f, readFileSync(join(folder, f), 'utf8')]))
  const anchors = new Map([...pages].map(([f, html]) => [f, new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(m => m[1]))]))
  const mistakes = new Map() // and the first page that has each
  const add = (mistake, file) => mistakes.has(mistake) || mistakes.set(mistake, file)
  for (const [file, html] of pages) {
    for (const [tag, name, link] of html.matchAll(/<\w+[^>]*?\s(href|src)="([^"]*)"[^>]*>/g)) {
      const url = new URL(unescaped(link), new URL(base + file, 'http://site'))
      if (url.protocol === 'data:' || url.protocol === 'mailto:') continue
      if (url.host !== 'site') {
        if (name === 'src' || tag.startsWith('<link')) add(`${link} is loaded from another host`, file)
        continue
      }
      const path = decodeURI(url.pathname).slice(base.length).replace(/(^|\/)$/, '$1index.html')
      if (!known.has(path)) add(`dead link ${link}`, file)
      else if (url.hash && !anchors.get(path)?.has(decodeURIComponent(url.hash.slice(1)))) add(`dead anchor ${link}`, file)
    }
  }
  if (mistakes.size > 0) throw new Error([...mistakes].map(([mistake, file]) => `${file}: ${mistake}`).sort().join('\n'))
}

const unescaped = text => text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
