// Opens bin/site in a headless Chromium, narrow and wide, light and dark, and writes screenshots to bin/site-screenshots.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { serve } from './serve.mjs'

const screenshots = join(dirname(fileURLToPath(import.meta.url)), '../../bin/site-screenshots')
const pages = { home: '', start: 'start.html', kinds: 'kinds.html', operate: 'operate/', commands: 'reference/cli.html', recipe: 'cookbook/wait-for-database/' }

let site, browser
before(async () => {
  rmSync(screenshots, { recursive: true, force: true })
  mkdirSync(screenshots, { recursive: true })
  site = await serve(0)
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
    chromiumSandbox: process.getuid() !== 0,
  })
})
after(async () => {
  await browser?.close()
  await site?.close()
})

// opened opens a page, runs what is given, and fails for errors that the browser reports and requests to other hosts.
async function opened(path, { width = 1280, colorScheme = 'light' }, run) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme })
  try {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    const errors = []
    const page = await context.newPage()
    page.on('console', m => ['error', 'warning'].includes(m.type()) && errors.push(m.text()))
    page.on('pageerror', e => errors.push(e.message))
    page.on('request', r => /^(data|blob):/.test(r.url()) || r.url().startsWith(site.url) || errors.push(`a request to ${r.url()}`))
    await page.goto(site.url + path, { waitUntil: 'networkidle' })
    await page.waitForFunction(() => document.querySelector('#app').__vue_app__) // its buttons and keys work from now on
    await page.waitForFunction(() => [...document.querySelectorAll('.diagram')].every(d => d.querySelector('svg')))
    await run(page)
    assert.deepEqual(errors, [])
  } finally {
    await context.close()
  }
}

for (const [name, path] of Object.entries(pages)) {
  for (const width of [390, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      test(`${name} at ${width} px, ${colorScheme}`, () => opened(path, { width, colorScheme }, async page => {
        const dark = await page.evaluate(() => document.documentElement.classList.contains('dark'))
        assert.equal(dark, colorScheme === 'dark')
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        assert.ok(over <= 0, `the page is ${over} px wider than the window`)
        await page.screenshot({ path: join(screenshots, `${name}-${width}-${colorScheme}.png`) })
      }))
    }
  }
}

test('the search finds a field and leads to its page', () => opened('', {}, async page => {
  await page.keyboard.press('/')
  await page.getByRole('searchbox').fill('onDelete')
  const result = page.locator('.VPLocalSearchBox .result').first()
  await result.waitFor()
  await page.screenshot({ path: join(screenshots, 'search.png') })
  assert.match(await result.textContent(), /onDelete/)
  await result.click()
  await page.waitForURL(/\/[a-z-]+\.html(#|$)/)
  await page.locator('.vp-doc', { hasText: 'onDelete' }).waitFor()
}))

test('diagrams are drawn', () => opened('start.html', { width: 390, colorScheme: 'dark' }, async page => {
  assert.equal(await page.locator('.diagram').count(), 1)
  await page.locator('.diagram').first().screenshot({ path: join(screenshots, 'diagram.png') })
}))

test('a button copies the code', () => opened('start.html', {}, async page => {
  const block = page.locator('.language-cue').first()
  await block.hover()
  await block.getByRole('button').click()
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^package kinds\n[^]*#At: \{/)
  assert.ok(await block.locator('span[style*="--shiki-light"]').count() > 20, 'the code has no colours')
}))

test('a button copies the commands of a session, without what they print', () => opened('start.html', {}, async page => {
  const block = page.locator('.language-console', { hasText: 'kubectl get ats --watch' }).first()
  await block.hover()
  await block.getByRole('button').click()
  const copied = await page.evaluate(() => navigator.clipboard.readText())
  assert.match(copied, /^kubectl get ats --watch/)
  assert.ok(!copied.includes('$ ') && !copied.includes('at-sample'), copied)
}))

test('the menu lists versions', () => opened('start.html', {}, async page => {
  await page.locator('.VPNavBarMenuGroup button').hover()
  await page.screenshot({ path: join(screenshots, 'versions.png') })
  const links = page.locator('.version-link')
  assert.ok(await links.count() > 0)
  await links.last().click()
  await page.getByRole('heading', { name: 'Fescue' }).first().waitFor()
}))
