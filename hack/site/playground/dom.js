// element creates an element. Strings become text, never markup.
export function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties)
  made.append(...children.flat().filter(child => child !== undefined && child !== ''))
  return made
}
