import { start } from '@lib/start'
import Order from '../pages/Order.svelte'

start(Order)
