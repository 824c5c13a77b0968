import { start } from '@lib/start'
import SignIn from '../pages/SignIn.svelte'

start(SignIn)
