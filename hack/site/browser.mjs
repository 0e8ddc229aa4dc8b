// A headless Chromium that looks at bin/site.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { serve } from './serve.mjs'

let site, browser

// browsing serves the site and starts the browser for the tests of a file, and returns their empty folder for screenshots.
export function browsing(folder) {
  const screenshots = join(dirname(fileURLToPath(import.meta.url)), '../../bin', folder)
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
  return screenshots
}

// visited opens a page, runs what is given, and fails for requests to other hosts, and for errors that the browser reports
// unless they are expected.
export async function visited(path, { width = 1280, colorScheme = 'light', expected }, run) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme })
  try {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    const errors = []
    const page = await context.newPage()
    page.on('console', m => ['error', 'warning'].includes(m.type()) && errors.push(m.text()))
    page.on('pageerror', e => errors.push(e.message))
    page.on('request', r => /^(data|blob):/.test(r.url()) || r.url().startsWith(site.url) || errors.push(`a request to ${r.url()}`))
    await page.goto(site.url + path, { waitUntil: 'networkidle' })
    await run(page)
    assert.deepEqual(errors.filter(e => !expected?.test(e)), [])
  } finally {
    await context.close()
  }
}

// fits fails if a page is wider than its window.
export async function fits(page) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok(over <= 0, `the page is ${over} px wider than the window`)
}
