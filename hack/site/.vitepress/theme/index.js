import { h } from 'vue'
import DefaultTheme from 'vitepress/theme-without-fonts'
import Diagram from './Diagram.vue'
import './style.css'

export default {
  ...DefaultTheme,
  enhanceApp({ app }) {
    app.component('Diagram', Diagram)
    app.component('VersionLink', VersionLink)
    if (!import.meta.env.SSR) window.addEventListener('click', copyCommands, { capture: true })
  },
}

// VersionLink leads to another build of the site, of which this one's router knows nothing.
const VersionLink = ({ name, path }) => h('a', { class: 'version-link', href: path, target: '_self' }, name)
VersionLink.props = ['name', 'path']

// copyCommands copies the commands of a session without their prompts and without what they print.
function copyCommands(event) {
  const button = event.target
  if (!button.matches?.('.language-console > button.copy')) return
  event.stopPropagation()
  const lines = button.parentElement.querySelector('code').textContent.split('\n')
  const commands = lines.filter((line, i) => line.startsWith('$ ') || (i > 0 && lines[i - 1].endsWith('\\')))
  navigator.clipboard.writeText(commands.map(line => line.replace(/^\$ /, '')).join('\n'))
  button.classList.add('copied')
  setTimeout(() => button.classList.remove('copied'), 2000)
}
