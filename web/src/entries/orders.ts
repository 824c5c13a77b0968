import { start } from '@lib/start'
import Orders from '../pages/Orders.svelte'

start(Orders)
