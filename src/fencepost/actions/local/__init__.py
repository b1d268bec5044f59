"""The actions of an app, as scripts over its own store."""
