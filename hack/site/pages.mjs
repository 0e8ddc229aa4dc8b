// Which pages the site has, where they are, and in which order. Titles are the pages' first headings.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

// order lists the sources of pages for each group of the sidebar. FOLDER/ stands for its README.md and, after what
// the list names, all other pages in it. A page may be absent: an older version may not have it yet.
const order = [
  ['Start', 'README.md', 'docs/playground.md', 'docs/tutorial/'],
  ['Concepts', 'docs/concepts.md'],
  [
    'Write kinds',
    'docs/kinds.md', 'docs/phases.md', 'docs/reads.md', 'docs/status.md', 'docs/children.md', 'docs/sets.md',
    'docs/namespaces.md', 'docs/adoption.md', 'docs/recursion.md', 'docs/changes.md', 'docs/decorators.md',
    'docs/sidecars.md', 'docs/versions.md', 'docs/schemas.md', 'docs/scenarios.md', 'docs/vet.md', 'docs/cue.md',
  ],
  ['Cookbook', 'docs/cookbook/'],
  ['Coming from', 'docs/coming-from/'],
  ['Comparison', 'docs/comparison.md'],
  [
    'Operate',
    'docs/operate/README.md', 'docs/operate/install.md', 'docs/operate/helm.md', 'docs/operate/binary.md',
    'docs/operate/kinds.md', 'docs/operate/upgrade.md', 'docs/operate/sizing.md', 'docs/operate/multi-tenancy.md',
    'docs/operate/monitoring.md', 'docs/operate/backup-and-restore.md', 'docs/operate/troubleshooting.md',
    'docs/operate/uninstall.md', 'docs/operate/',
  ],
  [
    'Reference',
    'docs/reference/README.md', 'docs/reference/contract.md', 'docs/reference/cli.md', 'docs/reference/conditions.md',
    'docs/reference/labels.md', 'docs/reference/limits.md', 'docs/reference/metrics.md', 'docs/reference/constructs.md',
    'docs/reference/', 'docs/admission.md', 'docs/performance.md', 'docs/compatibility.md',
  ],
  ['Security', 'docs/security.md'],
  ['Contribute', 'CONTRIBUTING.md', 'docs/architecture.md', 'docs/decisions/README.md', 'docs/release.md'],
  ['Decisions', 'docs/decisions/'],
]

// target is the page of the site that a source becomes, or undefined if it is none.
export function target(source) {
  switch (source) {
    case 'hack/site/index.md': return 'index.md'
    case 'README.md': return 'start.md'
    case 'CONTRIBUTING.md': return 'contributing.md'
  }
  if (/^docs\/.+\.md$/.test(source)) {
    return source.slice('docs/'.length).replace(/(^|\/)README\.md$/, '$1index.md')
  }
}

// groups returns the groups of the sidebar in order, each with its pages, and fails if one has no place.
export function groups(root) {
  const left = new Set(['README.md', 'CONTRIBUTING.md', ...pagesIn(root, 'docs/')].filter(f => existsSync(join(root, f))))
  const all = order.map(([text, ...sources]) => {
    const found = sources.flatMap(s => [...left].filter(f => (s.endsWith('/') ? f.startsWith(s) : f === s)).filter(f => left.delete(f)))
    return { text, items: found.map(f => ({ text: f === 'README.md' ? 'Quickstart' : title(root, f), link: '/' + target(f).replace(/(index)?\.md$/, '') })) }
  })
  if (left.size > 0) throw new Error(`${[...left].join(', ')}: add to a group in hack/site/pages.mjs`)
  return all.filter(g => g.items.length > 0)
}

// pagesIn returns the Markdown files below a folder, README.md first.
function pagesIn(root, folder) {
  const first = f => (f.endsWith('/README.md') ? f.slice(0, -'README.md'.length) : f)
  return readdirSync(join(root, folder), { recursive: true })
    .filter(f => f.endsWith('.md'))
    .map(f => folder + f)
    .sort((a, b) => (first(a) < first(b) ? -1 : 1))
}

// title is the first heading of a source.
export function title(root, source) {
  const heading = /^# (.+)$/m.exec(readFileSync(join(root, source), 'utf8'))
  if (!heading) throw new Error(`${source} has no heading`)
  return heading[1].replaceAll('`', '')
}
