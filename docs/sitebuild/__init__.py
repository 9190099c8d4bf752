"""What builds the documentation site: sources gathered, pages written, formulas, links checked."""
