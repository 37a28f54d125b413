"""Files that a run writes, and what reads them: diagnoses, tables, pages, recorded completions."""
