"""Measured kernels: reading tables of them, fitting prices to them, and comparing prices with them.

Needs pandas (`pip install 'rooflab[data]'`), fitting needs SciPy as well (`rooflab[calibrate]`); both are imported when used.
"""
