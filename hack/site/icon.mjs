// icon is a tuft of grass: fescue.
export const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke="#3f8f4f" stroke-width="3" stroke-linecap="round">
<path d="M16 30C16 20 15 10 17 2M14 30C13 21 10 14 4 9M18 30C19 22 22 16 28 12"/></svg>`)}`
