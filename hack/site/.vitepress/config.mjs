import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { icon } from '../icon.mjs'
import { diagrams, indentedCode, links, slugify } from '../markdown.mjs'
import { groups, target } from '../pages.mjs'

// build.mjs sets these for each version: the checkout it is built from, its name, and what the menu lists.
const here = dirname(dirname(fileURLToPath(import.meta.url)))
const root = resolve(process.env.SITE_SOURCE ?? join(here, '../..'))
const base = process.env.SITE_BASE ?? '/'
const version = process.env.SITE_VERSION ?? 'development'
const versions = JSON.parse(process.env.SITE_VERSIONS ?? JSON.stringify([{ name: version, path: base }]))
const ref = process.env.SITE_REF ?? execFileSync('git', ['-C', root, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim()

const repository = 'https://github.com/fescue-dev/fescue'
const all = groups(root)
const dead = new Set()
// inBar are the groups that the bar at the top leads to, and where each is the active one.
const inBar = { Start: '^/(start|tutorial/)', Concepts: '^/concepts', 'Write kinds': '^/kinds', Cookbook: '^/cookbook/', Operate: '^/operate/', Reference: '^/reference/' }
// playground is a page of its own, of which the router of the others knows nothing.
const playground = existsSync(join(root, 'hack/playground')) ? [{ text: 'Playground', link: '/playground/', target: '_self' }] : []
const decisions = all.find(g => g.text === 'Decisions')

export default defineConfig({
  title: 'Fescue',
  description: 'Fescue runs Kubernetes kinds that are written in CUE.',
  lang: 'en-US',
  base,
  srcDir: root,
  srcExclude: ['!(docs|hack|*.md)/**', '!(README|CONTRIBUTING).md', 'hack/!(site|*.md)/**', 'hack/site/!(index.md)', 'hack/site/*/**', 'hack/*.md'],
  outDir: process.env.SITE_OUT ?? join(here, '../../bin/site'),
  cacheDir: join(here, 'node_modules/.cache/vitepress'),
  rewrites: target,
  head: [['link', { rel: 'icon', href: icon }]],
  markdown: {
    attrs: { disable: true },
    anchor: { slugify },
    toc: { slugify },
    headers: { slugify },
    config(md) {
      indentedCode(md)
      diagrams(md)
      links(md, { root, base, repository, ref, dead })
    },
  },
  themeConfig: {
    nav: [
      ...all.filter(g => g.text in inBar).map(({ text, items }) => ({ text, link: items[0].link, activeMatch: inBar[text] })),
      ...playground,
      { text: version, items: versions.map(props => ({ component: 'VersionLink', props })) },
    ],
    sidebar: {
      '/decisions/': [{ ...decisions, link: '/decisions/' }],
      '/': all.filter(g => g !== decisions).map(entry),
    },
    outline: [2, 3],
    search: { provider: 'local', options: { miniSearch: { searchOptions: { fuzzy: 0.1, boostDocument } } } },
    editLink: { pattern: `${repository}/edit/main/:path`, text: 'Edit this page on GitHub' },
    socialLinks: [{ icon: 'github', link: repository }],
  },
  vite: {
    publicDir: false,
    plugins: [vueOfThisFolder()],
    build: { chunkSizeWarningLimit: 4096 }, // the index of the search
  },
  ignoreDeadLinks: true, // links and check report all of them
  buildEnd() {
    if (dead.size > 0) throw new Error([...dead].join('\n'))
  },
})

// entry is a group in the sidebar, which can be closed if it is long, or its page if it has only one.
function entry({ text, items }) {
  return items.length === 1 ? { text, link: items[0].link, items: [] } : { text, items, collapsed: items.length > 8 ? true : undefined }
}

// boostDocument puts decisions after the pages for users; it runs in the browser, and knows nothing of this file.
function boostDocument(id) {
  return id.includes('/decisions/') ? 0.2 : 1
}

// vueOfThisFolder finds Vue for the pages, which lie outside of this folder.
function vueOfThisFolder() {
  return {
    name: 'vue-of-this-folder',
    enforce: 'pre',
    resolveId(id, importer, options) {
      if (/^vue(\/|$)/.test(id) && importer?.startsWith(root)) return this.resolve(id, join(here, 'package.json'), { ...options, skipSelf: true })
    },
  }
}
