"""Figures: views of queues and workers, ended jobs, series, and what needs attention."""
