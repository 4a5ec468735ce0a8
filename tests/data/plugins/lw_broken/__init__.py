"""A package that cannot be imported."""

import a_driver_that_is_not_installed  # noqa: F401
