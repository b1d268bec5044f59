"""Every suite of the lab, for as long as there is time, and one report at the end."""
