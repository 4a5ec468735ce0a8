"""Types that memory or the machine does not have, expressed in types that it has."""
