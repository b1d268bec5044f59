"""Scripts in Lua. The server runs each as one: nothing happens in between."""
