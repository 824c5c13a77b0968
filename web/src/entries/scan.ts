import { start } from '@lib/start'
import Scan from '../pages/scan/Scan.svelte'

start(Scan)
