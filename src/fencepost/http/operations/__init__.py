"""The operations of the routes, one module for each subject."""
