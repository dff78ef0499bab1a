"""Layouts of data of dense and multi-modal tasks, and the sets that are prepared by name; `load_data` opens them."""
