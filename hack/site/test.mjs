// Opens bin/site in a headless Chromium, narrow and wide, light and dark, and writes screenshots to bin/site-screenshots.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { browsing, fits, visited } from './browser.mjs'

const screenshots = browsing('site-screenshots')
const pages = { home: '', start: 'start.html', kinds: 'kinds.html', operate: 'operate/', commands: 'reference/cli.html', recipe: 'cookbook/wait-for-database/' }

// opened opens a page whose buttons and keys work, and whose diagrams are drawn.
function opened(path, options, run) {
  return visited(path, options, async page => {
    await page.waitForFunction(() => document.querySelector('#app').__vue_app__)
    await page.waitForFunction(() => [...document.querySelectorAll('.diagram')].every(d => d.querySelector('svg')))
    await run(page)
  })
}

for (const [name, path] of Object.entries(pages)) {
  for (const width of [390, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      test(`${name} at ${width} px, ${colorScheme}`, () => opened(path, { width, colorScheme }, async page => {
        const dark = await page.evaluate(() => document.documentElement.classList.contains('dark'))
        assert.equal(dark, colorScheme === 'dark')
        await fits(page)
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

test('the menu leads to the playground', () => opened('', {}, async page => {
  await page.locator('.VPNavBarMenu').getByRole('link', { name: 'Playground' }).click()
  await page.getByRole('heading', { name: 'Playground', exact: true }).waitFor()
  assert.match(page.url(), /\/playground\/(#.*)?$/)
}))
