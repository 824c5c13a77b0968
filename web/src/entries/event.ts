import { start } from '@lib/start'
import Event from '../pages/Event.svelte'

start(Event)
