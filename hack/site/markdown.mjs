// What Markdown means on the site and on GitHub alike: links between files, anchors, and indented code.
import { existsSync, statSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { target, title } from './pages.mjs'

// slugify makes the anchor of a heading as GitHub does.
export function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replaceAll(' ', '-')
}

// playground is the source of a page that is none of VitePress's.
const playground = 'hack/site/playground/index.html'

// links leads relative links to pages of the site, or to the repository at the given ref, and adds others to dead.
export function links(md, { root, base, repository, ref, dead }) {
  md.core.ruler.push('repository_links', ({ tokens, env }) => {
    const source = env.realPath ?? env.path
    for (const { children } of tokens) {
      children?.forEach((token, i) => named(token, children[i + 1], source))
    }
    for (const token of tokens.flatMap(t => t.children ?? [])) {
      const link = token.attrGet?.('href')
      if (link) token.attrSet('href', resolved(link, source))
      if (link && link.endsWith(playground)) token.attrSet('target', '_self') // past the router
      if (token.type === 'image') resolved(token.attrGet('src'), source) // Vite copies the file to the site
    }
  })

  // named shows the title of a page where a link shows the name of its file.
  function named(token, text, source) {
    if (token.type !== 'link_open' || !/^[\w./-]+\.md$/.test(text.content)) return
    const page = relative(root, resolve(dirname(source), token.attrGet('href').replace(/#.*/, '')))
    if (target(page) && existsSync(resolve(root, page))) text.content = title(root, page)
  }

  function resolved(link, source) {
    const [, path, hash] = /^([^#]*)(#.*)?$/.exec(link)
    if (path === '' || /^(\w+:|\/)/.test(path)) return link
    const file = resolve(dirname(source), decodeURI(path))
    const inside = relative(root, file)
    if (inside.startsWith('..') || !existsSync(file)) {
      dead.add(`${relative(root, source)}: dead link ${link}`)
      return '#'
    }
    if (inside === playground) return base + 'playground/'
    const folder = statSync(file).isDirectory()
    const page = target(folder ? inside + '/README.md' : inside)
    if (page && existsSync(folder ? file + '/README.md' : file)) return '/' + page.replace(/index\.md$/, '') + (hash ?? '')
    return `${repository}/${folder ? 'tree' : 'blob'}/${ref}/${inside}${hash ?? ''}`
  }
}

// diagrams leaves blocks of Mermaid to the theme, which draws them as GitHub does.
export function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) => {
    if (tokens[i].info.trim() !== 'mermaid') return fence(tokens, i, ...rest)
    return `<Diagram source="${encodeURIComponent(tokens[i].content)}" />`
  }
}

// indentedCode shows indented blocks, and fenced ones without a language, as the language that they are in.
export function indentedCode(md) {
  md.core.ruler.push('indented_code', ({ tokens }) => {
    tokens.forEach((token, i) => {
      if (token.type === 'code_block') token.type = 'fence'
      if (token.type === 'fence' && token.info.trim() === '') token.info = language(token.content, tokens[i - 1])
    })
  })
}

function language(code, before) {
  if (before?.type === 'html_block' && before.content.startsWith('<!-- frame: ')) return 'cue'
  if (/^\$ /m.test(code)) return 'console'
  if (/^(- \{|apiVersion: |metadata:)/.test(code)) return 'yaml'
  if (/^(sudo |make|kubectl|fescue|bin\/fescue|go|git|helm|curl|mkdir|export|export|cd|docker|systemctl|for|#) /.test(code)) return 'sh'
  if (/^[\w#"]+[!?]?: /.test(code) && !before?.content?.startsWith('<!-- ')) return 'cue'
  return 'txt'
}
