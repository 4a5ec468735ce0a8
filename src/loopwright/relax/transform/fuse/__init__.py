"""Which calls become one kernel, and which regions go to an external code generator."""
