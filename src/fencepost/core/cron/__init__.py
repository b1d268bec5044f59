"""Crons: schedules, and the jobs that they submit."""
