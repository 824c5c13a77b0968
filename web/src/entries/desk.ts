import { start } from '@lib/start'
import Desk from '../pages/desk/Desk.svelte'

start(Desk)
