"""Files that a run writes, and their readers: diagnoses, tables, pages, recorded completions."""
