import 'virtual:tokens.css'
import '../app.css'
