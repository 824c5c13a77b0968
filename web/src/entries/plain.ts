// The script of pages that are all the server's words.
import '@lib/style'
import { wireSignOut } from '@lib/header'

wireSignOut()
