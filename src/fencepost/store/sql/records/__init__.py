"""Plans of what a store keeps beside jobs; an engine has the SQL in a file of the same name."""
