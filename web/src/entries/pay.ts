import { start } from '@lib/start'
import Pay from '../pages/Pay.svelte'

start(Pay)
