import 'virtual:tokens.css'
import '../app.css'
import '../old.css'
