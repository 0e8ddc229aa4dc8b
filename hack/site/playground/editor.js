// An editor of one text that shows findings under their lines.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { EditorState, StateEffect, StateField } from '@codemirror/state'
import { Decoration, EditorView, drawSelection, keymap, lineNumbers, placeholder, WidgetType } from '@codemirror/view'
import { element } from './dom.js'

const setFindings = StateEffect.define()

class Findings extends WidgetType {
  constructor(findings) {
    super()
    this.findings = findings
  }

  eq(other) {
    return JSON.stringify(other.findings) === JSON.stringify(this.findings)
  }

  toDOM() {
    return element('div', { className: 'findings' }, this.findings.map(f => element('div', { className: f.advice ? 'advice' : 'error' }, f.text)))
  }
}

// shown are the findings in the editor. An edit moves them with their lines, until the next answer.
const shown = StateField.define({
  create: () => Decoration.none,
  update(decorations, transaction) {
    decorations = decorations.map(transaction.changes)
    for (const effect of transaction.effects) {
      if (effect.is(setFindings)) decorations = decorationsOf(transaction.state.doc, effect.value)
    }
    return decorations
  },
  provide: field => EditorView.decorations.from(field),
})

function decorationsOf(doc, findings) {
  const lines = Map.groupBy(findings.filter(f => f.line > 0), f => Math.min(f.line, doc.lines))
  return Decoration.set([...lines].flatMap(([number, found]) => {
    const { from, to } = doc.line(number)
    return [
      Decoration.line({ class: found.every(f => f.advice) ? 'advised' : 'wrong' }).range(from),
      Decoration.widget({ widget: new Findings(found), block: true, side: 1 }).range(to),
    ]
  }), true)
}

// theme takes its colours from the page, whose variables reach into the editor.
const theme = EditorView.theme({
  '&': { height: '100%', fontSize: '13px', backgroundColor: 'var(--background)', color: 'var(--text)' },
  '&.cm-focused': { outline: '2px solid var(--brand)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--soft)', color: 'var(--dim)', borderRight: '1px solid var(--border)' },
  '.cm-placeholder': { color: 'var(--dim)' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': { backgroundColor: 'var(--selection)' },
  '.wrong': { backgroundColor: 'var(--error-soft)' },
  '.advised': { backgroundColor: 'var(--advice-soft)' },
  '.findings': { padding: '2px 8px', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', fontFamily: 'var(--sans)' },
  '.error': { color: 'var(--error)' },
  '.error::before': { content: '"✗ "' },
  '.advice': { color: 'var(--advice)' },
  '.advice::before': { content: '"→ "' },
})

// Editor is an editor in an element. Its styles are those of a shadow tree, since the policy of the page forbids others.
export class Editor {
  #view

  constructor(host, { label, hint, changed, run }) {
    const root = host.attachShadow({ mode: 'open' })
    this.#view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        extensions: [
          lineNumbers(), history(), drawSelection(), shown, theme,
          EditorState.tabSize.of(4),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false' }),
          placeholder(hint),
          keymap.of([{ key: 'Mod-Enter', run: () => (run(), true) }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.updateListener.of(update => update.docChanged && changed()),
        ],
      }),
    })
  }

  get text() {
    return this.#view.state.doc.toString()
  }

  set text(text) {
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true })
  }

  set findings(findings) {
    this.#view.dispatch({ effects: setFindings.of(findings) })
  }

  // go puts the cursor at a line.
  go(line) {
    const { from } = this.#view.state.doc.line(Math.min(line, this.#view.state.doc.lines))
    this.#view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) })
    this.#view.focus()
  }
}
