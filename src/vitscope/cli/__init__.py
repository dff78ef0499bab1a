"""The command line: `app` finds the verb, one file per verb holds its options and its call."""
