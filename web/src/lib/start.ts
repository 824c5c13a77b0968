import './style'
import { mount, type Component } from 'svelte'
import { wireSignOut } from './header'

// start puts a page's component in place of the words that the server sent for
// readers without scripts.
export function start(component: Component): void {
  wireSignOut()
  const target = document.getElementById('app')
  if (!target) return
  target.replaceChildren()
  mount(component, { target })
}
