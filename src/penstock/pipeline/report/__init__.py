"""The report: what the gold tables say, as numbers, as plots, and as one page of HTML.

    tables ──sums──▶ rows ──figures──▶ Figures ──plots──▶ SVG ──page──▶ HTML

Everything after the reading is pure: the same tables give the same bytes.
"""
