// Builds the site into bin/site: the checkout, or with --releases the newest release, the older ones below /vX.Y.Z/ and
// the checkout below /main/. SITE_BASE is the path at which the site will be served.
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { check } from './check.mjs'
import { playground } from './playground.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../..')
const out = join(root, 'bin/site')
const base = process.env.SITE_BASE ?? '/'
const git = (...args) => execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim()

// releases are the tags that have a site, newest first.
function releases() {
  return git('tag', '--list', 'v*', '--sort=-v:refname').split('\n')
    .filter(tag => /^v[\d.]+$/.test(tag) && git('ls-tree', tag, 'hack/site/index.md') !== '')
}

const main = { name: 'main', ref: git('rev-parse', 'HEAD'), source: root }
const tags = process.argv.includes('--releases') ? releases() : []
const versions = [...tags.map(tag => ({ name: tag, ref: tag, source: join(root, 'bin/site-sources', tag) })), main]
versions.forEach((v, i) => { v.folder = i === 0 ? '' : v.name + '/' })

rmSync(out, { recursive: true, force: true })
for (const version of versions) {
  if (version !== main) extract(version)
  const env = {
    ...process.env,
    SITE_SOURCE: version.source,
    SITE_REF: version.ref,
    SITE_VERSION: version.name,
    SITE_VERSIONS: JSON.stringify(versions.map(v => ({ name: v.name, path: base + v.folder }))),
    SITE_BASE: base + version.folder,
    SITE_OUT: join(out, version.folder),
  }
  // A process for each: VitePress keeps what it rendered, and would reuse the links of another version.
  execFileSync(process.execPath, [join(here, 'node_modules/vitepress/bin/vitepress.js'), 'build', here], { env, stdio: 'inherit' })
  await playground(version.source, join(out, version.folder, 'playground'))
}
check(out, base)

function extract({ ref, source }) {
  rmSync(source, { recursive: true, force: true })
  mkdirSync(source, { recursive: true })
  execFileSync('tar', ['-x', '-C', source], { input: execFileSync('git', ['-C', root, 'archive', ref], { maxBuffer: 1 << 30 }) })
}
