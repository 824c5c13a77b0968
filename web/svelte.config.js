// Styles go to the one style sheet: the pages' security policy allows no style
// that a script writes into the page.
export default { compilerOptions: { css: 'external', runes: true } }
