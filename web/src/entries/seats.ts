import { start } from '@lib/start'
import Seats from '../pages/Seats.svelte'

start(Seats)
